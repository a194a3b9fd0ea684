-- add: outcomes of a version to the sums of all processes
INSERT INTO binding_outcomes (binding_id, revision, slot, succeeded, failed)
VALUES (:binding_id, :revision, :slot, :succeeded, :failed)
ON CONFLICT (binding_id, revision, slot) DO UPDATE SET
  succeeded = binding_outcomes.succeeded + excluded.succeeded, failed = binding_outcomes.failed + excluded.failed;

-- sums: the outcomes of some bindings since a time, by revision
SELECT binding_id, revision, CAST(sum(succeeded) AS BIGINT) AS succeeded, CAST(sum(failed) AS BIGINT) AS failed
FROM binding_outcomes WHERE binding_id = ANY(:ids) AND slot > :after
GROUP BY binding_id, revision;

-- forget: outcomes that are too old
DELETE FROM binding_outcomes WHERE slot <= :before;
