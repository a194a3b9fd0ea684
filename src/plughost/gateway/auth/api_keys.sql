-- insert: a new key
INSERT INTO api_keys (key_id, org_id, project_id, name, digest, scopes, is_operator, created_at, created_by, expires_at)
VALUES (:key_id, :org_id, :project_id, :name, :digest, :scopes, :is_operator, :created_at, :created_by, :expires_at);

-- find: the key of that id
SELECT key_id, org_id, project_id, name, digest, scopes, is_operator, created_at, created_by, expires_at, revoked_at,
  last_used_at
FROM api_keys WHERE key_id = :key_id;

-- revoke: a key of an organisation; no row when it has no such key
UPDATE api_keys SET revoked_at = coalesce(revoked_at, :now) WHERE key_id = :key_id AND org_id = :org_id
RETURNING key_id, org_id, project_id, name, digest, scopes, is_operator, created_at, created_by, expires_at, revoked_at,
  last_used_at;

-- used: when a key was used last
UPDATE api_keys SET last_used_at = :at WHERE key_id = :key_id;

-- operators: how many keys may make organisations and are not revoked
SELECT count(*) AS number FROM api_keys WHERE is_operator AND revoked_at IS NULL;
