-- insert: an event that is not handed to deliveries yet
INSERT INTO events (org_id, project_id, event, created_at, pending)
VALUES (:org_id, :project_id, :event, :created_at, TRUE);

-- insert_handled: an event whose deliveries are stored in the same transaction
INSERT INTO events (org_id, project_id, event, created_at, pending)
VALUES (:org_id, :project_id, :event, :created_at, FALSE)
RETURNING number;

-- waiting: the first events of all tenants that wait
SELECT number, org_id, project_id, event FROM events
WHERE pending AND number > :after
ORDER BY number LIMIT :limit;

-- waiting_of: the first events of a project that wait
SELECT number, org_id, project_id, event FROM events
WHERE pending AND org_id = :org_id AND project_id = :project_id AND number > :after
ORDER BY number LIMIT :limit;

-- waiting_of_org: the first events of an organisation and its projects that wait
SELECT number, org_id, project_id, event FROM events
WHERE pending AND org_id = :org_id AND number > :after
ORDER BY number LIMIT :limit;

-- done: an event that is handed to deliveries now; no row when another process was faster
UPDATE events SET pending = FALSE WHERE number = :number AND pending RETURNING number;
