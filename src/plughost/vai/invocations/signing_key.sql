-- all: the signing keys of delegation tokens, the newest first
SELECT name, sealed FROM signing_keys WHERE name LIKE 'delegation-%' ORDER BY created_at DESC, name DESC;

-- insert: the first key; another process may have been faster
INSERT INTO signing_keys (name, created_at, sealed) VALUES (:name, :created_at, :sealed) ON CONFLICT DO NOTHING;

-- reseal: a key, encrypted with another master key
UPDATE signing_keys SET sealed = :sealed WHERE name = :name;
