"""Pure: the simulated queue as a listing shows it."""

from __future__ import annotations

from Daddy.cluster.orchestrator.records import JobState, QueueJob, Snapshot, Waits
from Daddy.cluster.orchestrator.simulate.jobs import Job, Stage
from Daddy.cluster.orchestrator.simulate.site import Site

_LISTED_S = 300.0
"""How long ended jobs stay in the listing (Slurm's MinJobAge)."""

_Key = tuple[object, ...]


class Eyes:
    """Makes snapshots; rows that did not change are made once."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._rows: dict[Job, tuple[_Key, QueueJob]] = {}

    def add(self, job: Job) -> None:
        """From now on the job is listed."""
        self._rows[job] = ((), self._row(job, Waits.TURN))

    def look(self) -> Snapshot:
        """The queue as it stands now."""
        site, rows = self._site, []
        full = len(site.running) >= site.scenario.cap
        for job in list(self._rows):
            if job.stage is Stage.ENDED and site.now - job.ended > _LISTED_S:
                del self._rows[job]
                continue
            waits = self._waits(job, full=full)
            key = (job.word, job.limit_s, waits)
            if self._rows[job][0] != key:
                self._rows[job] = (key, self._row(job, waits))
            rows.append(self._rows[job][1])
        return Snapshot(site.now, tuple(rows), maintenance_ts=self._maintenance())

    def _waits(self, job: Job, *, full: bool) -> Waits:
        if job.stage is not Stage.WAITING:
            return Waits.TURN
        if full:
            return Waits.CAP
        return Waits.TURN if self._site.fits(job) else Waits.RESERVATION

    def _row(self, job: Job, waits: Waits) -> QueueJob:
        if job.stage in (Stage.BLOCKED, Stage.WAITING):
            why = "Dependency" if job.stage is Stage.BLOCKED else waits.value
            limit = int(job.limit_s)
            return QueueJob(
                job.number, job.token, JobState.PENDING, "PENDING", why, limit_s=limit, waits=waits
            )
        ended = job.stage is Stage.ENDED
        return QueueJob(
            job.number,
            job.token,
            JobState.ENDED if ended else JobState.RUNNING,
            job.word,
            node=job.node,
            started_ts=job.started if job.node else None,
            ends_ts=job.ended if ended else job.started + job.limit_s,
            exit_code=job.exit_code if ended else None,
            limit_s=int(job.limit_s),
        )

    def _maintenance(self) -> float | None:
        site = self._site
        notice = site.scenario.rates.maintenance_notice_s
        for begin, end in site.weather.maintenance:
            if begin - notice <= site.now < end:
                return begin
        return None
