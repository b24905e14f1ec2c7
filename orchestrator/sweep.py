"""The story of a sweep, from its spec to its report, to be read from top to bottom."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from orchestrator import __version__, cluster
from orchestrator.blocks import Blocks
from orchestrator.hardware import Node, classify
from orchestrator.home import SweepFolder
from orchestrator.journal import (
    BlockSuggested,
    Journal,
    SessionEnded,
    SessionStarted,
    SweepOpened,
    SweepState,
    TrialFinished,
    replay,
)
from orchestrator.objectives import arms_read
from orchestrator.placement import make_lanes
from orchestrator.plan import Plan, make_plan
from orchestrator.recorder import Recorder
from orchestrator.report.records import SweepRecord
from orchestrator.session import Session
from orchestrator.spec import SweepSpec
from orchestrator.stopping import Stopped, StopSignal
from orchestrator.suggest import Suggester
from orchestrator.trial import FinishedTrial, Outcome, SweepIdentity, Trial
from workloads import registry
