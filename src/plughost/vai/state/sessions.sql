-- create: a new session; no row when it exists
INSERT INTO sessions (session_id, org_id, project_id, title)
VALUES (:session_id, :org_id, :project_id, :title)
ON CONFLICT DO NOTHING
RETURNING session_id;

-- find: the session of that id
SELECT session_id, org_id, project_id, title FROM sessions WHERE session_id = :session_id;

-- chains: the next chains of a session, by id
SELECT chain_id FROM chains
WHERE session_id = :session_id AND org_id = :org_id AND project_id = :project_id AND chain_id > :after
ORDER BY chain_id LIMIT :limit;
