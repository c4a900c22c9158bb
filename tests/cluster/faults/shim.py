# ruff: noqa: PTH100, PTH104, PTH110, PTH118, PTH119, PTH120, PTH123, SIM115
"""Simulates sbatch, squeue, scancel, scontrol, sacct, sacctmgr and sinfo over one JSON file.

Runs as a program under one of these names, or by :func:`answer` in a test. It stores jobs and
prints them as Slurm 22.05 does; ``site.py`` starts and ends them. ``faults`` is a list of scripted
faults such as ``{"on": "sbatch", "do": "time out", "appears": 0}``; each is used once unless it has
``times`` or ``until`` (virtual seconds). It uses the standard library only, so a call takes a few
milliseconds.
"""

import fcntl
import json
import os
import re
import shlex
import sys
import time

FOLDER = "SHIM_FOLDER"
TIMED_OUT = "Socket timed out on send/recv operation"
NO_CONTACT = "Unable to contact slurm controller (connect failure)"
MIN_JOB_AGE_S = 300.0
USER = "student"


class HangError(Exception):
    """Raised for a command that hangs until it is killed."""


class AnsweredError(Exception):
    """Raised to end a command early with this result."""

    def __init__(self, rc, out="", err=""):
        super().__init__(out or err)
        self.result = (rc, out, err)


def fresh():
    """Return the state of a site without jobs."""
    return {
        "next_id": 101,
        "jobs": [],
        "faults": [],
        "calls": {},
        "cap": 4,
        "max_submit": None,
        "accounting": False,
        "enforced": False,
        "partitions": ["gpu-linuxlab"],
        "reservations": [],
        "drained": {},
    }


# -- the commands ----------------------------------------------------------------------------------


def sbatch(state, argv, now, env, stdin):
    options, rest = options_of(argv, "parsable test-only hold no-requeue")
    script = open(rest[0]).read() if rest else stdin
    wishes = {}
    for line in script.splitlines():
        if line.startswith("#SBATCH "):
            for word in shlex.split(line[len("#SBATCH ") :]):
                key, _, value = word.lstrip("-").partition("=")
                wishes[key] = value
    for key, value in env.items():
        if key.startswith("SBATCH_"):  # overrides the script's lines, as in Slurm
            wishes[key[len("SBATCH_") :].lower().replace("job_name", "job-name")] = value
    wishes.update(options)
    partition = wishes.get("partition", state["partitions"][0])
    if partition not in state["partitions"]:
        refuse(f"invalid partition specified: {partition}", "Invalid partition name specified")
    if "test-only" in options:
        raise AnsweredError(0, "", "sbatch: Job 1 to start now\n")
    alive = [job for job in state["jobs"] if job["state"] in ("PENDING", "RUNNING")]
    if state["max_submit"] is not None and len(alive) >= state["max_submit"]:
        refuse("QOSMaxSubmitJobPerUserLimit", "Job violates accounting/QOS policy")
    dependency = wishes.get("dependency", "")
    job = {
        "id": state["next_id"],
        "name": wishes.get("job-name", "wrap"),
        "comment": wishes.get("comment", ""),
        "partition": partition,
        "limit": seconds_of(wishes.get("time", "1:00:00")),
        "gres": wishes.get("gres", ""),
        "qos": wishes.get("qos", "normal"),
        "requeue": 0 if "no-requeue" in wishes else 1,
        "state": "PENDING",
        "reason": "Dependency" if dependency else "None",
        "after": int(dependency.split(":")[1]) if ":" in dependency else None,
        "submit": now,
        "visible": now,
        "start": None,
        "end": None,
        "node": "",
        "exit": 0,
        "signal": 0,
        "restarts": 0,
        "held": "",
        "excluded": wishes.get("exclude", ""),
        "mail": [],
        "uid": None,
    }
    if state.pop("drop_marks", False):
        job["comment"] = ""
    state["next_id"] += 1
    state["jobs"].append(job)
    return f"{job['id']}\n" if "parsable" in options else f"Submitted batch job {job['id']}\n"


def refuse(first, second):
    text = f"sbatch: error: {first}\nsbatch: error: Batch job submission failed: {second}\n"
    raise AnsweredError(1, "", text)


def squeue(state, argv, now, env, stdin):
    options, _ = options_of(argv, "me noheader array all start", "hra", {"t": "states"})
    jobs = visible(state, now)
    wanted = options.get("states", env.get("SQUEUE_STATES", ""))
    if wanted in ("R", "RUNNING"):
        jobs = [job for job in jobs if job["state"] == "RUNNING"]
    elif wanted != "all":
        jobs = [job for job in jobs if job["state"] in ("PENDING", "RUNNING", "SUSPENDED")]
    asked = options.get("jobs", options.get("j"))
    if asked:
        ids = {int(word) for word in asked.split(",")}
        jobs = [job for job in jobs if job["id"] in ids]
        if not jobs and len(ids) == 1:
            raise AnsweredError(1, "", "slurm_load_jobs error: Invalid job id specified\n")
    if "Format" in options or "O" in options:
        return "".join(long_row(job, options.get("Format") or options["O"], now) for job in jobs)
    form = options.get("format") or options.get("o") or "%i %T"
    return "".join(short_row(job, form, now) + "\n" for job in jobs)


def visible(state, now):
    """Return the jobs that slurmctld lists: ended ones for ``MIN_JOB_AGE_S`` only."""
    state["jobs"] = [
        job for job in state["jobs"] if job["end"] is None or now - job["end"] < MIN_JOB_AGE_S
        or job["state"] in ("PENDING", "RUNNING")
    ]  # fmt: skip
    return [job for job in state["jobs"] if job["visible"] <= now]


def scancel(state, argv, now, env, stdin):
    options, ids = options_of(argv, "batch full me")
    for job in visible(state, now):
        if str(job["id"]) not in ids and ids:
            continue
        if "name" in options and options["name"] != job["name"]:
            continue
        if job["state"] not in ("PENDING", "RUNNING", "SUSPENDED"):
            continue
        if "signal" in options:
            job["mail"].append(options["signal"])
        elif job["state"] == "PENDING":
            job.update(state="CANCELLED", end=now, uid=os.getuid())
        else:
            job["mail"].append("TERM")
            job["uid"] = os.getuid()
    return ""


def scontrol(state, argv, now, env, stdin):
    verb, rest = argv[0], argv[1:]
    while verb.startswith("-"):
        verb, rest = rest[0], rest[1:]
    if verb == "ping":
        return "Slurmctld(primary) at login is UP\n"
    if verb == "show":
        return show(state, rest, now)
    if verb == "update":
        return update(state, rest, now)
    for job in visible(state, now):
        if str(job["id"]) in ",".join(rest).split(","):
            if verb in ("hold", "uhold"):
                job.update(held="user", reason="JobHeldUser")
            elif verb == "release":
                job.update(held="", reason="None")
            elif verb == "requeue" and not job["requeue"]:
                raise AnsweredError(1, "", "Requested operation is presently disabled\n")
    return ""


def update(state, words, now):
    facts = dict(word.split("=", 1) for word in words if "=" in word)
    facts = {key.lower(): value for key, value in facts.items()}
    for job in visible(state, now):
        if str(job["id"]) == facts.get("jobid", facts.get("job")):
            if "name" in facts and facts["name"] != job["name"]:
                continue
            job["amended"] = job.get("amended", 0) + 1
            if "excnodelist" in facts:
                job["excluded"] = facts["excnodelist"]
            if "timelimit" in facts:
                job["limit"] = seconds_of(facts["timelimit"])
            if "priority" in facts:
                job["held"] = "user" if facts["priority"] == "0" else ""
            return ""
    raise AnsweredError(1, "", "slurm_update error: Invalid job id specified\n")


def show(state, words, now):
    what = words[0] if words else ""
    if what == "config":
        enforced = "associations,limits,qos" if state["enforced"] else "none"
        name = state.get("cluster", "linuxlab")
        lines = (f"AccountingStorageEnforce = {enforced}", f"ClusterName             = {name}")
        return "\n".join((*lines, "SlurmctldPort = 6817", ""))
    if what.startswith("res"):
        rows = [
            f"ReservationName={reservation['name']} StartTime={int(reservation['start'])} "
            f"EndTime={int(reservation['end'])} Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES "
            "State=INACTIVE"
            for reservation in state["reservations"]
        ]
        return "\n".join(rows) + "\n" if rows else "No reservations in the system\n"
    if what.startswith("job"):
        asked = words[1] if len(words) > 1 else ""
        jobs = [job for job in visible(state, now) if not asked or str(job["id"]) == asked]
        if asked and not jobs:
            raise AnsweredError(1, "", "slurm_load_jobs error: Invalid job id specified\n")
        return "".join(
            f"JobId={job['id']} JobName={job['name']} JobState={job['state']} "
            f"Reason={job['reason']} Partition={job['partition']} QOS={job['qos']} "
            f"TimeLimit={clock_of(job['limit'])} Comment={job['comment']} "
            f"TresPerNode={job['gres']} Requeue={job['requeue']} Restarts={job['restarts']}\n"
            for job in jobs
        )
    return ""


def sacct(state, argv, now, env, stdin):
    if not state["accounting"]:
        raise AnsweredError(1, "", "Slurm accounting storage is disabled\n")
    options, _ = options_of(
        argv, "noheader parsable2 parsable allocations allusers duplicates", "nPpXaD"
    )
    asked = options.get("jobs", options.get("j", ""))
    ids = {word for word in asked.split(",") if word}
    names = options.get("format", options.get("o", "JobID,State")).split(",")
    jobs = state.get("sacct", state["jobs"])
    return "".join(
        "|".join(field(job, name.split("%")[0], now, sacct=True) for name in names) + "\n"
        for job in jobs
        if not ids or str(job["id"]) in ids
    )


def sacctmgr(state, argv, now, env, stdin):
    if not state["enforced"]:
        raise AnsweredError(1, "", "You are not running a supported accounting_storage plugin\n")
    wanted = next((word.split("=", 1)[1] for word in argv if word.startswith("format=")), "")
    limits = {"maxjobs": state["cap"], "maxjobsperuser": state["cap"], "maxjobspu": state["cap"]}
    submit = state["max_submit"]
    limits |= {"maxsubmit": submit, "maxsubmitjobsperuser": submit, "maxsubmitpu": submit}
    limits |= {"maxsubmitjobs": submit}
    cells = [limits.get(name.split("%")[0].lower()) for name in wanted.split(",")]
    return "|".join("" if cell is None else str(cell) for cell in cells) + "\n"


def sinfo(state, argv, now, env, stdin):
    options, _ = options_of(argv, "Node noheader all")
    if options.get("states") == "drain":
        state["calls"]["sinfo drained"] = state["calls"].get("sinfo drained", 0) + 1
        asked = options["nodes"].split(",")
        rows = [f"{node}|{why}" for node, why in state["drained"].items() if node in asked]
        return "".join(f"{row}\n" for row in rows)
    return "".join(f"{name}*|up|idle\n" for name in state["partitions"])


COMMANDS = {
    command.__name__: command
    for command in (sbatch, squeue, scancel, scontrol, sacct, sacctmgr, sinfo)
}


# -- command-line arguments ----------------------------------------------------------------------


def options_of(argv, flags, short_flags="", aliases=()):
    """Return (options by long name, other arguments); only ``flags`` take no value."""
    known, found, rest, index = set(flags.split()), {}, [], 0
    while index < len(argv):
        word = argv[index]
        index += 1
        if word.startswith("--"):
            key, given, value = word[2:].partition("=")
            if not given and key not in known:
                value = argv[index]
                index += 1
            found[key] = value
        elif word.startswith("-") and len(word) > 1:
            if all(letter in short_flags for letter in word[1:]):
                continue
            key, value = word[1], word[2:]
            if not value:
                value = argv[index]
                index += 1
            found[dict(aliases).get(key, key)] = value
        else:
            rest.append(word)
    return found, rest


def seconds_of(text):
    """Convert ``minutes``, ``M:S``, ``H:M:S`` or ``D-H:M:S`` to seconds."""
    days, _, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if len(parts) == 1:
        parts = [0, parts[0], 0]
    elif len(parts) == 2:
        parts = [0, *parts]
    return int(days or 0) * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]


def clock_of(seconds):
    days, rest = divmod(int(seconds), 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


# -- rows ----------------------------------------------------------------------------------------


def stamp(value):
    return "N/A" if value is None else str(int(value))


def field(job, name, now, sacct=False):
    """Return one cell by its name in --Format or sacct."""
    return cell(cells_of(job, now, sacct), name)


def cell(cells, name):
    return str(cells.get(re.sub(r"[-_]", "", name.lower()), "N/A"))


def cells_of(job, now, sacct=False):
    """Return all cells of a job."""
    ran = job["start"] is not None
    ends = job["end"] if job["end"] is not None else (job["start"] + job["limit"] if ran else None)
    status = job["exit"] * 256 + job["signal"]
    state = job["state"]
    if sacct and state == "CANCELLED" and job["uid"] is not None:
        state = f"CANCELLED by {job['uid']}"
    return {
        "jobid": job["id"], "jobarrayid": job["id"], "jobidraw": job["id"], "state": state,
        "statecompact": job["state"][:2], "reason": job["reason"], "reasonlist": job["reason"],
        "starttime": stamp(job["start"]) if ran else stamp(job.get("expected")),
        "start": stamp(job["start"]), "endtime": stamp(ends), "end": stamp(job["end"]),
        "submittime": stamp(job["submit"]), "submit": stamp(job["submit"]),
        "eligibletime": stamp(job["submit"]), "accruetime": stamp(job["submit"]),
        "exitcode": f"{job['exit']}:{job['signal']}" if sacct else status,
        "nodelist": job["node"], "name": job["name"], "jobname": job["name"],
        "comment": job["comment"] or ("" if sacct else "(null)"), "partition": job["partition"],
        "qos": job["qos"], "timelimit": clock_of(job["limit"]),
        "timelimitraw": job["limit"] // 60, "restartcnt": job["restarts"],
        "restarts": job["restarts"],
        "username": USER, "user": USER, "userid": os.getuid(), "uid": os.getuid(),
        "tresperjob": job["gres"] or "N/A", "trespernode": job["gres"] or "N/A",
        "gres": job["gres"] or "N/A", "tres": job["gres"], "requeue": job["requeue"],
        "account": "none", "elapsedraw": int((job["end"] or now) - job["start"]) if ran else 0,
        "timeused": clock_of(now - job["start"]) if ran else "00:00:00", "dependency": "(null)",
    }  # fmt: skip


def long_row(job, form, now):
    """Return a line of ``squeue --Format``: fields padded or cut to their widths, with suffixes."""
    cells, row = [], cells_of(job, now)
    for part in re.split(r",(?=[A-Za-z])", form):
        name, _, how = part.partition(":")
        match = re.fullmatch(r"(\.?)(\d*)(.*)", how)
        width = int(match[2] or 20)
        text = cell(row, name)[:width]
        cells.append((text.rjust(width) if match[1] else text.ljust(width)) + match[3])
    return "".join(cells) + "\n"


_SHORT = {"i": "jobid", "A": "jobid", "T": "state", "r": "reason", "j": "name", "k": "comment",
          "e": "endtime", "S": "starttime", "N": "nodelist", "P": "partition", "l": "timelimit",
          "q": "qos", "u": "username", "V": "submittime", "F": "jobid", "b": "gres"}  # fmt: skip


def short_row(job, form, now):
    def put(match):
        text = field(job, _SHORT.get(match[2], match[2]), now)
        return text[: int(match[1].lstrip("."))] if match[1].lstrip(".") else text

    return re.sub(r"%(\.?\d*)([A-Za-z])", put, form)


# -- faults --------------------------------------------------------------------------------------


def next_fault(state, command, now):
    for fault in list(state["faults"]):
        if fault.get("until") is not None and now >= fault["until"]:
            state["faults"].remove(fault)
        elif fault["on"] in (command, "*") and now >= fault.get("from", 0):
            if fault.get("until") is None:
                fault["times"] = fault.get("times", 1) - 1
                if fault["times"] <= 0:
                    state["faults"].remove(fault)
            return fault
    return None


def prefix(command):
    return {"squeue": "slurm_load_jobs error", "sbatch": "sbatch: error"}.get(command, command)


def perform(state, command, argv, now, env, stdin, fault):
    """Run a command with a fault; return (rc, stdout, stderr)."""
    do = fault["do"] if fault else ""
    work = COMMANDS[command]
    if do == "hang":
        if fault.get("creates"):
            work(state, argv, now, env, stdin)
        raise HangError
    if do in ("frozen", "down"):
        why = TIMED_OUT if do == "frozen" else NO_CONTACT
        if command == "sbatch":
            why = f"Batch job submission failed: {why}"
        return 1, "", f"{prefix(command)}: {why}\n"
    if do == "time out":
        made = fault.get("appears")
        if made is not None:
            work(state, argv, now, env, stdin)
            state["jobs"][-1]["visible"] = now + made
        return 1, "", f"sbatch: error: Batch job submission failed: {TIMED_OUT}\n"
    if do == "say":
        return fault.get("rc", 0), fault.get("out", ""), fault.get("err", "")
    try:
        out = work(state, argv, now, env, stdin)
        rc, err = 0, ""
    except AnsweredError as answered:
        rc, out, err = answered.result
    return rc, bent(out, fault or {}), (fault or {}).get("err", "") + err


def bent(out, fault):
    """Change the command's output as the fault says."""
    do = fault.get("do")
    if do == "around":
        return fault.get("before", "") + out + fault.get("after", "")
    if do == "federated":
        return out.strip() + ";cluster\n"
    if do == "empty":
        return ""
    if do == "cut":
        return out[: -fault.get("chars", 40)]
    if do == "garble":
        lines = out.splitlines(keepends=True)
        lines[len(lines) // 2 : len(lines) // 2 + 1] = ["\x00\x1b[31mslurm_xxx: node fail\n"]
        return "".join(lines)
    return out


def judge(state, command, argv, now, env, stdin=""):
    """Run a command; return (rc, stdout, stderr). HangError where it would hang."""
    fault = next_fault(state, command, now)
    state["calls"][command] = state["calls"].get(command, 0) + 1
    return perform(state, command, argv, now, env, stdin, fault)


def answer(folder, command, argv, env, stdin=""):
    """Run a command with the state in its file."""
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        now = float(open(os.path.join(folder, "now")).read())
        path = os.path.join(folder, "state.json")
        with open(path) as file:
            state = json.load(file)
        try:
            return judge(state, command, argv, now, env, stdin)
        finally:
            with open(path + ".new", "w") as file:
                json.dump(state, file)
            os.rename(path + ".new", path)


def main():
    command, folder = os.path.basename(sys.argv[0]), os.path.dirname(os.path.abspath(sys.argv[0]))
    folder = os.environ.get(FOLDER, os.path.dirname(folder))
    stdin = ""
    if command == "sbatch" and not any(os.path.exists(word) for word in sys.argv[1:]):
        stdin = sys.stdin.read()
    try:
        rc, out, err = answer(folder, command, sys.argv[1:], dict(os.environ), stdin)
    except HangError:
        time.sleep(3600)
        raise SystemExit(1) from None
    sys.stderr.write(err)
    sys.stdout.write(out)
    raise SystemExit(rc)


if __name__ == "__main__":
    main()
