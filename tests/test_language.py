"""The project's language: no banned word, no public class name with two meanings."""

import ast
from collections import defaultdict

from tests.language import ROOT, _python, check, tracked_files


def test_no_file_has_a_banned_word_or_name() -> None:
    hits = check(tracked_files())
    assert not hits, "\n".join(hits)


def test_the_check_detects_each_kind_of_hit() -> None:
    source = '"""Whether it is told."""\n\n\ndef told(each: int) -> None:  # beside it\n'
    source += "    found = each\n"
    words = {hit.split()[1] for hit in _python("sample.py", source)}
    assert words == {"Whether", "told", "each", "beside", "found"}


def test_every_public_class_name_has_one_meaning() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for name in tracked_files():
        if name.startswith(("orchestrator/", "workloads/")) and name.endswith(".py"):
            for node in ast.parse((ROOT / name).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(name)
    assert not {name: files for name, files in modules.items() if len(files) > 1}
