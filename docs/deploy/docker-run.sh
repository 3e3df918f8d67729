# The same without compose.
docker run --rm \
  --env AWS_ACCESS_KEY_ID --env AWS_SECRET_ACCESS_KEY --env AWS_SESSION_TOKEN --env AWS_REGION \
  --volume "$PWD:/pipeline:ro" singer-arrow singer-arrow run /pipeline/pipeline.yml
