"""What hostile commands, specs and stores are made of."""

from dataclasses import dataclass

LONG = "a" * 5_000


@dataclass(frozen=True, kw_only=True)
class HostileWords:
    """Words, each of which ends a command line after each of the commands."""

    words: list[str]
    commands: list[str]


NAMES = HostileWords(
    words=[
        "sw#²",
        "#",
        "quickstart#99",
        "",
        "..",
        "../../etc",
        LONG,
        "名前",
        "\x1b[31mred",
        "\udcff",
        "-",
    ],
    commands=[
        "report",
        "query",
        "best",
        "compare quickstart",
        "status",
        "logs",
        "stop",
        "run",
        "plan",
    ],
)
ADDRESSES = HostileWords(
    words=[
        "a..b:1",
        "127.0.0.1:²",
        "http://a..b:8265",
        ":",
        "http://127.0.0.1:1",
        "http://user:pw@127.0.0.1:1/x?y",
        "",
        "\n",
    ],
    commands=[
        "hardware --address",
        "status --address",
        "logs a --address",
        "submit mine.yaml --address",
        "run mine.yaml --address",
    ],
)
VALUES = HostileWords(
    words=[
        "=",
        "a",
        "=1",
        "units=",
        "units=[",
        "limits.trial_s=1e999",
        "search=7",
        "\udcff",
        "²",
        "-1",
    ],
    commands=[
        "run mine.yaml --set",
        "plan mine.yaml --set",
        "query quickstart",
        "query quickstart --sql",
        "query quickstart --columns",
        "query quickstart --sort",
        "query quickstart --limit",
        "query quickstart --format",
        "report quickstart --section",
        "best quickstart --min",
        "best quickstart --metric",
        "compare quickstart quickstart --margin",
        "ui --port",
        "ui --host",
        "doctor --for",
        "bench",
        "submit mine.yaml --home",
        "hardware --format",
    ],
)
CONDITIONS = HostileWords(
    words=["SELECT * FROM read_csv('/x')", "1) OR (1", "x'", "arm LIKE '%\udcff'"],
    commands=["query quickstart", "query quickstart --sql"],
)
OUTPUTS = HostileWords(
    words=["", "/", "x.html/y", "no/x.html", "\udcff.md"],
    commands=["report quickstart -o"],
)
HOSTILE_WORDS = (NAMES, ADDRESSES, VALUES, CONDITIONS, OUTPUTS)

HOMES = [
    "file",
    "loop",
    "~nosuchuser/x",
    LONG,
    "/proc/1/root/x",
    "\udcff",
    "/dev/null",
    "/dev/null/x",
]
"""Homes; the test makes a file `file` and a link `loop` to itself."""

SPEC_VALUES = [
    "~",
    "[]",
    "{}",
    "''",
    "-1",
    "0",
    "1e308",
    "-1e308",
    "1e-300",
    ".inf",
    ".nan",
    "true",
    "²",
    "10000000000000",
    "[[[[[[[[]]]]]]]]",
    "{a: {b: {c: 1}}}",
    "&a [*a]",
    "!!python/object:x {}",
    "'\\x1b[31m'",
    '"\\ud800"',
    "2026-01-01",
    "0x10",
    "null, null",
    "|",
    "- -",
    "*none",
    "a: b: c",
]
"""Values of keys in a spec, as YAML."""

TAGS = [
    "",
    "²",
    "nan",
    "-1",
    "1e999",
    "999999999999999999999999999999",
    "{}",
    "[]",
    "null",
    "\x1b[31m",
    "\ud7ff" * 4,
    LONG,
]
"""Values of tags of runs."""

_OWNER = '{"host":"h","pid":1,"started_s":1.0,"machine":"m"}'
_LEASE = '"version":3,"written_by":{"version":"9","commit":""},"content":{"owner":'
LEASES = [
    "{",
    f'{{{_LEASE}null,"until_s":NaN}}}}',
    f'{{{_LEASE}{_OWNER},"until_s":Infinity}}}}',
    f'{{{_LEASE}{_OWNER},"until_s":1e18}}}}',
    '{"version":99,"written_by":"\\u001b[31m","content":[]}',
]
"""Values of the tag of a sweep's run that says which driver has it."""

READERS = [
    "report",
    "report quickstart --format json",
    "query quickstart",
    "status",
    "best quickstart",
]
"""Commands that read a store."""
