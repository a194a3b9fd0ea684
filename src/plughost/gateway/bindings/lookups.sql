-- find: the binding of that id
SELECT binding_id, number, org_id, project_id, package_id, package_version, export_id, config, secrets, policy,
  status, traffic_percent, activated, revision, created_at, updated_at
FROM bindings WHERE binding_id = :binding_id;

-- versions: all bindings of an export in one scope
SELECT binding_id, number, org_id, project_id, package_id, package_version, export_id, config, secrets, policy,
  status, traffic_percent, activated, revision, created_at, updated_at
FROM bindings
WHERE org_id = :org_id AND project_id = :project_id AND package_id = :package_id AND export_id = :export_id
ORDER BY number;

-- revisions: the changes of a binding before a revision, newest first
SELECT revision, org_id, project_id, at, actor, action, note, document FROM binding_revisions
WHERE binding_id = :binding_id AND revision < :before
ORDER BY revision DESC LIMIT :limit;

-- revision: one change of a binding
SELECT revision, org_id, project_id, at, actor, action, note, document FROM binding_revisions
WHERE binding_id = :binding_id AND revision = :revision;

-- secrets_of_org: the secrets that the bindings of an organisation map
SELECT binding_id, secrets FROM bindings WHERE org_id = :org_id ORDER BY number;

-- of_version: the bindings of a package version in an organisation
SELECT binding_id, status FROM bindings
WHERE org_id = :org_id AND package_id = :package_id AND package_version = :package_version
ORDER BY number;
