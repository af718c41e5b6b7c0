"""Compiled templates, kept where Python keeps compiled modules: to read one takes a thirtieth of compiling it."""

import os
import sys
import tempfile
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class Compiled(BytecodeCache):
    """Keeps compiled templates beside them; one that was changed, or cannot be kept, is compiled anew."""

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Return the file of a template that is compiled."""
        return cache_from_source(filename or name)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a template, if it was kept."""
        with suppress(OSError), Path(bucket.key).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, whole or not at all."""
        if sys.dont_write_bytecode:
            return
        place = Path(bucket.key)
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor, fresh = tempfile.mkstemp(dir=place.parent, prefix=f"{place.name}.")
            with os.fdopen(descriptor, "wb") as file:
                bucket.write_bytecode(file)
            Path(fresh).replace(place)
