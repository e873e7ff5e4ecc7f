"""What the device that DEV names does here, as one line of JSON. Run by `run.py` in the clean environment."""

from __future__ import annotations

import json
import sys

import tiny_core
from tiny_core.plugins.select import default_device, open_device, select

selection = select()
runtime, renderer = open_device(default_device())
runtime.close()
assert selection.renderer is not None
assert renderer is not None
result: object = "no tensors"
if hasattr(tiny_core, "Tensor"):
    result = (tiny_core.Tensor([1.0, 2.0, 3.0]) + 1).tolist()
report = {
    "device": selection.name,
    "runtime": type(runtime).__module__,
    "renderer": f"{type(renderer).__module__} {renderer.fingerprint()}",
    "(Tensor([1, 2, 3]) + 1).tolist()": result,
    "fixture modules": sorted(m for m in sys.modules if m.startswith("tiny_fixture")),
}
print(json.dumps(report))
