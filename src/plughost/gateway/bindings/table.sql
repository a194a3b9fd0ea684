-- next_change: the number of the next change of any binding. Its row is locked until the commit, so one change
-- of bindings runs at a time, and the numbers are in the order of commits.
INSERT INTO meta (name, value) VALUES ('binding_changes', '1')
ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)
RETURNING CAST(value AS BIGINT) AS change;

-- insert: a new binding
INSERT INTO bindings (binding_id, number, org_id, project_id, package_id, package_version, export_id, config,
  secrets, policy, status, traffic_percent, activated, revision, created_at, updated_at)
VALUES (:binding_id, :number, :org_id, :project_id, :package_id, :package_version, :export_id, :config,
  :secrets, :policy, :status, :traffic_percent, :activated, 1, :now, :now)
RETURNING binding_id, number, org_id, project_id, package_id, package_version, export_id, config, secrets, policy,
  status, traffic_percent, activated, revision, created_at, updated_at;

-- update: a binding, to its next revision
UPDATE bindings SET config = :config, secrets = :secrets, policy = :policy, status = :status,
  traffic_percent = :traffic_percent, activated = :activated, revision = revision + 1, updated_at = :now
WHERE binding_id = :binding_id
RETURNING binding_id, number, org_id, project_id, package_id, package_version, export_id, config, secrets, policy,
  status, traffic_percent, activated, revision, created_at, updated_at;

-- delete: a binding
DELETE FROM bindings WHERE binding_id = :binding_id;

-- keep_revision: a change of a binding
INSERT INTO binding_revisions (change, binding_id, revision, org_id, project_id, at, actor, action, note, document)
VALUES (:change, :binding_id, :revision, :org_id, :project_id, :at, :actor, :action, :note, :document);
