-- insert: a new delivery; ignored when the binding has one for that event
INSERT INTO deliveries (delivery_id, binding_id, org_id, project_id, event_number, attempt, due_at, status)
VALUES (:delivery_id, :binding_id, :org_id, :project_id, :event_number, 0, :due_at, 'pending')
ON CONFLICT (event_number, binding_id) DO NOTHING;

-- due_of (sqlite): when the first delivery of each of these bindings is due
SELECT value AS binding_id, (SELECT min(due_at) FROM deliveries WHERE binding_id = value AND status = 'pending') AS due_at
FROM json_each(:ids);

-- due_of (postgresql): when the first delivery of each of these bindings is due
SELECT id AS binding_id, (SELECT min(due_at) FROM deliveries WHERE binding_id = id AND status = 'pending') AS due_at
FROM unnest(CAST(:ids AS TEXT[])) AS id;

-- due: when the first delivery of each binding is due; reads one row for each binding, not all that wait
WITH RECURSIVE queue (id) AS (
  SELECT min(binding_id) FROM deliveries WHERE status = 'pending'
  UNION ALL
  SELECT (SELECT min(binding_id) FROM deliveries WHERE status = 'pending' AND binding_id > queue.id)
  FROM queue WHERE queue.id IS NOT NULL)
SELECT id AS binding_id, (SELECT min(due_at) FROM deliveries WHERE binding_id = id AND status = 'pending') AS due_at
FROM queue WHERE id IS NOT NULL;

-- tenants: the tenants of a binding's deliveries that wait, some of them
SELECT DISTINCT org_id, project_id FROM (
  SELECT org_id, project_id FROM deliveries
  WHERE binding_id = :binding_id AND status = 'pending' ORDER BY due_at, number LIMIT 100) AS first;

-- claim: the first deliveries of a binding that are due. Their attempt is counted before it is made.
WITH due AS MATERIALIZED (
  SELECT number AS due_number FROM deliveries
  WHERE binding_id = :binding_id AND status = 'pending' AND due_at <= :now
  ORDER BY due_at, number LIMIT :limit
  FOR UPDATE SKIP LOCKED)
UPDATE deliveries SET attempt = attempt + 1, status = 'leased', lease = :lease
FROM due WHERE number = due_number
RETURNING number, delivery_id, binding_id, org_id, project_id, event_number, attempt, due_at, status, why;

-- events: the events of deliveries
SELECT number, event FROM events WHERE number = ANY(:numbers);

-- settle (sqlite): the results of attempts, unless another process has taken the delivery over
UPDATE deliveries SET status = result.value ->> 'status', due_at = result.value ->> 'due_at',
  why = result.value ->> 'why', settled_at = result.value ->> 'settled_at', lease = NULL
FROM json_each(:results) AS result
WHERE number = result.value ->> 'number' AND lease = result.value ->> 'lease'
  AND attempt = result.value ->> 'attempt';

-- settle (postgresql): the results of attempts, unless another process has taken the delivery over
UPDATE deliveries SET status = result.status, due_at = result.due_at, why = result.why,
  settled_at = result.settled_at, lease = NULL
FROM json_to_recordset(CAST(CAST(:results AS TEXT) AS JSON)) AS result (number BIGINT, lease TEXT, attempt INTEGER,
  status TEXT, due_at DOUBLE PRECISION, why TEXT, settled_at DOUBLE PRECISION)
WHERE deliveries.number = result.number AND deliveries.lease = result.lease
  AND deliveries.attempt = result.attempt;

-- give_back: a delivery that was claimed and not attempted
UPDATE deliveries SET status = 'pending', attempt = attempt - 1, lease = NULL
WHERE number = :number AND lease = :lease AND attempt = :attempt;

-- give_back_unknown: what a process has claimed without learning of it, because the answer to its commit was lost
UPDATE deliveries SET status = 'pending', attempt = attempt - 1, lease = NULL
WHERE status = 'leased' AND lease = :lease AND NOT number = ANY(:known);

-- replay: a dead letter, from its first attempt on
UPDATE deliveries SET status = 'pending', attempt = 0, due_at = :now, settled_at = NULL
WHERE delivery_id = :delivery_id AND status = 'dead'
RETURNING binding_id;

-- all: every delivery with its event
SELECT d.number, d.delivery_id, d.binding_id, d.org_id, d.project_id, d.attempt, d.due_at, d.status, d.why, e.event
FROM deliveries d JOIN events e ON e.number = d.event_number
WHERE CAST(:status AS TEXT) IS NULL OR d.status = :status
ORDER BY d.number;
