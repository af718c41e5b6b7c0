"""Files of a result: plain files of the working folder are copied, and nothing else."""

import os

import pytest

from rota.runners.files import ALL_LIMIT, ONE_LIMIT, keep_files, named_files, read_index


@pytest.fixture
def folder(tmp_path):
    """The folder of a run in the state folder of the project in which the work happens."""
    path = tmp_path / ".rota" / "runs" / "20261119" / "id"
    path.mkdir(parents=True)
    (tmp_path / ".rota" / "token").write_text("secret")
    return path


def kept(tmp_path, folder, *names, **choices):
    keep_files(list(names), cwd=str(tmp_path), folder=str(folder), **choices)
    return [(entry["size"], entry["why"]) for entry in read_index(str(folder))]


def test_files_are_copied_under_numbers_with_private_modes(tmp_path, folder):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("hello")
    assert kept(tmp_path, folder, "out/a.txt", str(tmp_path / "out" / "a.txt")) == [(5, None), (5, None)]
    assert sorted(os.listdir(folder / "files")) == ["0", "1", "index.json"]
    assert (folder / "files" / "0").read_text() == "hello"
    assert (folder / "files" / "0").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/passwd", "is outside of the working folder"),
        ("../../etc/passwd", "is outside of the working folder"),
        ("out/../../x", "is outside of the working folder"),
        (".", "is outside of the working folder"),
        ("link", "is a link"),
        ("away/passwd", "is behind a link or a file"),
        ("file/below", "is behind a link or a file"),
        (".rota/token", "is in the state folder of rota"),
        ("pipe", "is not a plain file"),
        ("below", "is a directory"),
        ("nothing", "no such file or directory"),
        ("null\0", "embedded null byte"),
    ],
)
def test_a_name_that_leads_elsewhere_is_not_followed(name, why, tmp_path, folder):
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "file").write_text("x")
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert kept(tmp_path, folder, name) == [(None, why)]
    assert os.listdir(folder / "files") == ["index.json"]


def test_sizes_are_bounded_for_a_file_and_for_a_run(tmp_path, folder):
    for name, size in (("large", ONE_LIMIT + 1), ("just", ONE_LIMIT), ("small", 1)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    whole = ["just"] * (ALL_LIMIT // ONE_LIMIT)
    *found, last = kept(tmp_path, folder, "large", *whole, "small")
    assert found == [(None, "is too large: 10 MB a file at most"), *((ONE_LIMIT, None) for _ in whole)]
    assert last == (None, "is too large: 50 MB a run at most")


def test_secrets_are_replaced_in_copies_and_names(tmp_path, folder):
    (tmp_path / "hunter2").write_text("it is hunter2")
    assert kept(tmp_path, folder, "hunter2", redact=lambda data: data.replace(b"hunter2", b"***")) == [(9, None)]
    assert (folder / "files" / "0").read_text() == "it is ***"
    assert read_index(str(folder))[0]["name"] == "***"


def test_only_a_result_with_a_list_of_texts_names_files(tmp_path):
    path = tmp_path / "result.json"
    for text in ("[1]", "{", '{"files": "a"}', "{}"):
        path.write_text(text)
        assert named_files(str(path)) == []
    path.write_text('{"files": ["a", 3]}')
    assert named_files(str(path)) == ["a"]
    assert named_files(str(tmp_path / "nothing")) == []
