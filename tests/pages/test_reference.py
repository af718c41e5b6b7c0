"""The reference of the API: every operation of the OpenAPI document, rendered by the server."""

from tests.pages.conftest import Site


def operations(site: Site) -> dict[str, str]:
    paths = site.api.get("/openapi.json")["paths"]
    return {raw["operationId"]: path for path, methods in paths.items() for raw in methods.values()}


def test_every_operation_is_listed_and_has_its_page(site: Site) -> None:
    page = site.get("/ui/api")
    found = operations(site)
    assert len(found) > 70
    for name, path in found.items():
        assert f"/ui/api?operation={name}" in page.links
        one = site.get(f"/ui/api?operation={name}")
        assert path in one.words
        assert f"operation {name}" in one.words
        shapes = {section["id"] for section in one.all("section", class_="card") if "id" in section}
        if "more shape" not in one.words:
            assert {link[1:] for link in one.links if link.startswith("#shape-")} <= shapes
        assert len(one.response.content) <= 100_000


def test_an_operation_shows_parameters_body_answers_and_scope(site: Site) -> None:
    page = site.get("/ui/api?operation=pause_job")
    assert "scope run" in page.words
    assert "Body" in page.words
    assert "Problem" in page.words
    listed = site.get("/ui/api?operation=get_jobs")
    assert "label query list of string" in listed.words
    assert "job required path string" in site.get("/ui/api?operation=get_job").words


def test_an_unknown_operation_is_not_found(site: Site) -> None:
    site.get("/ui/api?operation=nope", status=404)
    assert "/ui/api" in site.get("/ui/system").links
