-- advance: the next version of a secret, or its first. The row is locked until the transaction ends; its value follows.
INSERT INTO secrets
  (org_id, project_id, name, version, packages, created_at, updated_at, master_key_id, data_key, sealed)
VALUES (:org_id, :project_id, :name, 1, NULL, :now, :now, '', :nothing, :nothing)
ON CONFLICT (org_id, project_id, name) DO UPDATE SET version = secrets.version + 1, updated_at = :now
RETURNING version, packages, created_at;

-- fill: the value of a version
UPDATE secrets SET packages = :packages, master_key_id = :master_key_id, data_key = :data_key, sealed = :sealed
WHERE org_id = :org_id AND project_id = :project_id AND name = :name;

-- find: a secret with its encrypted value
SELECT version, packages, master_key_id, data_key, sealed FROM secrets
WHERE org_id = :org_id AND project_id = :project_id AND name = :name;

-- packages: which packages may have a secret
SELECT packages FROM secrets WHERE org_id = :org_id AND project_id = :project_id AND name = :name;

-- hold: like packages; nobody deletes the secret before the transaction ends
SELECT packages FROM secrets WHERE org_id = :org_id AND project_id = :project_id AND name = :name FOR UPDATE;

-- delete: a secret with its value
DELETE FROM secrets WHERE org_id = :org_id AND project_id = :project_id AND name = :name
RETURNING name, version, packages, created_at, updated_at;

-- page: the secrets of a tenant, newest first
SELECT name, version, packages, created_at, updated_at FROM secrets
WHERE org_id = :org_id AND project_id = :project_id
ORDER BY created_at DESC, name DESC LIMIT :limit;

-- page_after: the secrets of a tenant after one of them
SELECT name, version, packages, created_at, updated_at FROM secrets
WHERE org_id = :org_id AND project_id = :project_id AND (created_at, name) < (:after_at, :after_name)
ORDER BY created_at DESC, name DESC LIMIT :limit;
