from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.data import text as text_module
from workloads.data.prose import python_docs, python_docs_text
from workloads.data.sources import SHAKESPEARE_SHA256, text_digest
from workloads.data.text import load_text
from workloads.failures import DataError


def test_the_digest_is_that_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_bytes("Straße\r\n".encode())
    text = load_text("file", str(path))
    assert text.text == "Straße\r\n"  # the file's own line ends
    assert text.source == str(path)
    assert text.digest == text_digest("file", str(path))
    docs = load_text("python-docs")
    assert docs.digest == text_digest("python-docs")
    assert docs.digest == hashlib.sha256(docs.text.encode()).hexdigest()
    assert docs.source == f"pydoc_data.topics of Python {platform.python_version()}"


def test_python_docs_are_prose_that_repeats_no_paragraph() -> None:
    topics = python_docs()
    assert list(topics) == sorted(topics)
    paragraphs = [" ".join(part.split()) for parts in topics.values() for part in parts]
    assert len(paragraphs) == len(set(paragraphs)) > 1000
    text = python_docs_text()
    assert len(text) > 250_000
    assert "Assignment statements are used to (re)bind names" in " ".join(text.split())


def test_a_python_without_its_topics_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(DataError, match=r"expected pydoc_data\.topics.*complete Python"):
        text_digest("python-docs")


def test_shakespeares_digest_is_known_without_a_network() -> None:
    assert text_digest("shakespeare") == SHAKESPEARE_SHA256


def test_shakespeare_is_read_from_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "input.txt"
    path.write_text("First Citizen:\n")
    for ask in (text_digest, load_text):
        with pytest.raises(DataError, match=r"expected the text of https.*dataset to 'file'"):
            ask("shakespeare", str(path))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr("workloads.data.sources.SHAKESPEARE_SHA256", digest)
    assert text_digest("shakespeare", str(path)) == digest
    assert load_text("shakespeare", str(path)).text == "First Citizen:\n"


def test_shakespeare_is_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path))
    (tmp_path / "shakespeare.txt").write_text("All:\nSpeak, speak.\n")
    digest = hashlib.sha256((tmp_path / "shakespeare.txt").read_bytes()).hexdigest()
    monkeypatch.setattr(text_module, "SHAKESPEARE_SHA256", digest)
    text = load_text("shakespeare", url="http://127.0.0.1:9/never-asked")
    assert text.text == "All:\nSpeak, speak.\n"
    assert text.source.startswith("https://")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a text; received an empty file"),
        (b"caf\xe9 au lait", r"expected UTF-8; received byte 0xe9 at offset 3 \(invalid"),
        ("Straße".encode()[:5], r"expected UTF-8; received byte 0xc3 at offset 4 \(unexpected end"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_text("file", str(path))


@pytest.mark.parametrize("ask", [text_digest, load_text])
def test_a_missing_file_is_explained(ask: object, tmp_path: Path) -> None:
    assert callable(ask)
    with pytest.raises(DataError, match=r"absent.*No such file.*settings\.data_path"):
        ask("file", str(tmp_path / "absent"))
    with pytest.raises(DataError, match="Is a directory"):
        ask("file", str(tmp_path))
    with pytest.raises(DataError, match=r"path of a text in settings\.data_path; received none"):
        ask("file")


def test_digests_need_the_standard_library_only() -> None:
    code = (
        "import sys; from workloads.data.sources import text_digest\n"
        "text_digest('python-docs'), text_digest('zipf')\n"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
