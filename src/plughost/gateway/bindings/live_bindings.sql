-- newest_change: the number of the last change of any binding; no row before the first
SELECT CAST(value AS BIGINT) AS change FROM meta WHERE name = 'binding_changes';

-- all_active: all active bindings
SELECT binding_id, org_id, project_id, package_id, package_version, export_id, config, secrets, policy, status,
  traffic_percent, activated, revision
FROM bindings WHERE status = 'active';

-- changed: the bindings that were changed after a number, as they are now; deleted ones have no status
SELECT r.binding_id AS changed_id, b.binding_id, b.org_id, b.project_id, b.package_id, b.package_version, b.export_id,
  b.config, b.secrets, b.policy, b.status, b.traffic_percent, b.activated, b.revision
FROM binding_revisions r LEFT JOIN bindings b ON b.binding_id = r.binding_id
WHERE r.change > :after
ORDER BY r.change;
