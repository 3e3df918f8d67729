#!/usr/bin/env bash
# Plan with one job of AWS Batch, then load with an array of four. The job definition `pipeline` has the image, the
# secrets as environment, and a volume of EFS at /pipeline with pipeline-shards.yml, tap.yml and
# catalog.json beside each other.
set -euo pipefail
submit=(aws batch submit-job --job-queue pipeline --job-definition pipeline --query jobId --output text)

plan=$("${submit[@]}" --job-name plan \
  --container-overrides '{"command": ["tap-s3-files", "--config", "/pipeline/tap.yml", "--config=ENV", "--catalog", "/pipeline/catalog.json", "--write-plan"]}')
"${submit[@]}" --job-name load --depends-on "jobId=$plan" --array-properties size=4 --retry-strategy attempts=3 \
  --container-overrides '{"command": ["bash", "-c", "TAP_S3_FILES_SHARD=$AWS_BATCH_JOB_ARRAY_INDEX/4 exec singer-arrow run /pipeline/pipeline-shards.yml"]}'
