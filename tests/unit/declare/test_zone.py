"""The machine's own time zone by name."""

import pytest

from rota.declare.readers.calendar import local_zone
from rota.model.errors import RotaError


@pytest.mark.parametrize(
    "text",
    ["Europe/Madrid", ":Europe/Madrid", "/usr/share/zoneinfo/Europe/Madrid", ":/usr/share/zoneinfo/Europe/Madrid"],
)
def test_the_environment_is_asked_first(tmp_path, text):
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert local_zone({"TZ": text}, tmp_path) == "Europe/Madrid"


def test_the_written_name_is_asked_before_the_link(tmp_path):
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Paris")
    assert local_zone({}, tmp_path) == "Asia/Tokyo"


@pytest.mark.parametrize("target", ["/usr/share/zoneinfo/Europe/Paris", "../var/db/timezone/zoneinfo/Europe/Paris"])
def test_the_link_is_asked_last(tmp_path, target):
    (tmp_path / "localtime").symlink_to(target)
    assert local_zone({}, tmp_path) == "Europe/Paris"


def test_a_name_that_is_no_zone_is_passed_over(tmp_path):
    (tmp_path / "timezone").write_text("Mars/Base\n")
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Paris")
    assert local_zone({"TZ": "<+03>-3"}, tmp_path) == "Europe/Paris"


def test_a_machine_without_a_named_zone_is_told_what_to_write(tmp_path):
    (tmp_path / "localtime").write_bytes(b"TZif2")
    with pytest.raises(RotaError, match=r"has no name.*write an IANA name"):
        local_zone({}, tmp_path)
