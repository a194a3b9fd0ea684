-- start: a new run; no row when it exists
INSERT INTO runs (run_id, org_id, project_id, session_id, chain_id, parent_run_id, invocation_id, export_id,
  task, status, reason, output, result, started_at, ended_at)
VALUES (:run_id, :org_id, :project_id, :session_id, :chain_id, :parent_run_id, :invocation_id, :export_id,
  :task, :status, :reason, :output, :result, :started_at, :ended_at)
ON CONFLICT DO NOTHING
RETURNING run_id;

-- take_turns (sqlite): lets one transaction at a time count the runs of an invocation; its writers take turns anyway
SELECT :invocation_id;

-- take_turns (postgresql): lets one transaction at a time count the runs of an invocation
SELECT pg_advisory_xact_lock(hashtextextended(:invocation_id, 0));

-- count: runs that an invocation has started
SELECT count(*) AS number FROM runs WHERE invocation_id = :invocation_id;

-- find: the run of that id
SELECT run_id, org_id, project_id, session_id, chain_id, parent_run_id, invocation_id, export_id, task, status,
  reason, output, result, started_at, ended_at
FROM runs WHERE run_id = :run_id;

-- finish: the end of a run that has none; no row for another
UPDATE runs SET status = :status, reason = :reason, output = :output, result = :result, ended_at = :ended_at
WHERE run_id = :run_id AND status = 'running'
RETURNING run_id, org_id, project_id, session_id, chain_id, parent_run_id, invocation_id, export_id, task, status,
  reason, output, result, started_at, ended_at;

-- end_all: the end of the running runs of an invocation
UPDATE runs SET status = :status, reason = :reason, ended_at = :ended_at
WHERE invocation_id = :invocation_id AND status = 'running';

-- end_orphans: the end of running runs whose invocation has ended
UPDATE runs SET status = 'failed', reason = 'host_ended', ended_at = :now
WHERE status = 'running' AND invocation_id IN (
  SELECT r.invocation_id FROM runs r JOIN invocations i ON i.invocation_id = r.invocation_id
  WHERE r.status = 'running' AND i.status IS NOT NULL);
