"""How launches of the model world fall asleep, wake, and return from a node that was lost."""

from datetime import timedelta

from control.states import ReplicaState

S = ReplicaState
DRAIN = timedelta(seconds=120)
LEFT = 1 << 20  # of a sleeper


class Sleepers:
    """Of a Model, which has rows, moves and time."""

    def _wake(self, action, states):
        """What it held, booked again; where another has it by now, it is stopped."""
        row, old = self.rows[action.replica_id], states[action.replica_id]
        others = [share for one in self.rows.values() if one is not row for share in one.held]
        if row.state is S.ASLEEP and any(overlap(new, it) for new in row.awake for it in others):
            row.drain_by, row.sleep_level = self.at + DRAIN, 0
            return self.move(row.id, S.DRAINING, old)
        if not self.move(row.id, S.WAKING, old):
            return False
        row.held, row.sleep_level = row.awake, 0
        return True

    def _sleep(self, row, engine):
        """It keeps a little of its card, as the driver tells."""
        row.awake, engine.asleep = row.held, True
        if self.move(row.id, S.ASLEEP, S.DRAINING):
            device, lower, _ = row.held[0]
            row.held = ((device, lower, lower + LEFT),)

    def _return(self, row, engine):
        to = S.READY if engine and row.ready_at else S.DRAINING
        if row.awake:
            to = S.ASLEEP if engine and engine.asleep and row.sleep_level else S.DRAINING
        self.move(row.id, to, S.LOST)
        row.sleep_level = row.sleep_level if to is S.ASLEEP else 0
        row.drain_by = row.drain_by or self.at


def overlap(one, other):
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
