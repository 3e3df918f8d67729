# The same without compose.
docker run --rm --env-file pipeline.env \
  --env AWS_ACCESS_KEY_ID --env AWS_SECRET_ACCESS_KEY --env AWS_SESSION_TOKEN --env AWS_REGION \
  --volume "$PWD:/pipeline" singer-arrow bash /pipeline/load.sh
