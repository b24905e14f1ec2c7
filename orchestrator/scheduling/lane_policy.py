"""The rule that decides which round starts next, and on which lane."""

from collections.abc import Callable, Sequence

from orchestrator.core.trial import Block, Trial
from orchestrator.scheduling.lane_index import LaneIndex
from orchestrator.scheduling.lane_queue import LaneQueue


def next_round(
    lanes: LaneIndex, suggest: Callable[[], Block | None], to_come: int
) -> tuple[LaneQueue, Sequence[Trial]] | None:
    """Return the next round to start, taken from its lane's queue; None if no lane gets one.

    `suggest` adds a new block to the ledger and lets its trials wait; `to_come` is how many blocks
    may still be suggested. The rule:

    1. The lane with the most free slots is served first, and among equals the first by position.
       So rounds spread over the nodes before any node gets a second one.
    2. A lane whose slots are all taken gets one round more, and no further one. The device then
       never waits for the driver, and Ray Tune, which starts pending trials in arbitrary order,
       has no choice.
    3. But it gets none of the last blocks: if fewer blocks remain for it than there are lanes that
       can run them, the others may be idle before it is.
    4. When a lane needs a block, it takes the oldest block that its hardware has not run. If there
       is none, it takes a new one, the next suggestion. It takes all trials of the block that its
       node can run, so that the arms of a block are compared on one node.
    5. Within a lane, blocks run in the order in which it took them, and the repeats of a block in
       theirs. On a node whose CPU arms and GPU arms take turns, the rounds of the device at work
       come first (`LaneQueue.pick_round`).
    """
    for queue in lanes.with_room():
        if queue.free_slots == 0 and _others_may_be_idle_first(lanes, queue, to_come):
            continue
        _give_blocks(lanes, queue, suggest)
        if members := queue.pick_round():
            return queue, members
    return None


def _others_may_be_idle_first(lanes: LaneIndex, queue: LaneQueue, to_come: int) -> bool:
    """Return whether fewer blocks remain for a lane at work than there are lanes to take them."""
    if queue.waiting:
        return False
    needed = lanes.count_lanes_like(queue) - to_come
    return needed > 0 and not lanes.has_blocks_for(queue, needed)


def _give_blocks(lanes: LaneIndex, queue: LaneQueue, suggest: Callable[[], Block | None]) -> None:
    """Give a lane the blocks that it needs: begun ones first, then new suggestions (rule 4)."""
    while queue.needs_block:
        index = lanes.oldest_block_for(queue)
        if index is None:
            block = suggest()
            if block is not None:
                lanes.hand_over(block.index, queue)
            return
        lanes.hand_over(index, queue)
