"""Print one of the two set-up commands of README.md: ``job`` or ``tests``."""

import re
import sys
from pathlib import Path

text = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
commands = dict(zip(("job", "tests"), re.findall(r"^```sh\n(.*)\n```$", text, re.MULTILINE), strict=True))
print(commands[sys.argv[1]])
