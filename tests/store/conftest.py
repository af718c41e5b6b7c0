"""Every conformance test runs once for each backend; a new backend is one more line in `BACKENDS`."""

import pytest

from tests.store.backends import BACKENDS


@pytest.fixture(params=sorted(BACKENDS))
def backend(request, tmp_path):
    backend = BACKENDS[request.param](tmp_path)
    yield backend
    backend.store.close()


@pytest.fixture
def store(backend):
    return backend.store
