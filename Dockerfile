# All connectors, from the wheels in dist/ (`make build` writes them):
#   docker build -t singer-arrow .
#   docker run --rm -v "$PWD":/data singer-arrow singer-arrow run pipeline.yml
FROM python:3.13-slim
# Compiled here: the user singer cannot keep bytecode, so each start would compile everything again.
RUN --mount=type=bind,source=dist,target=/dist \
    pip install --no-cache-dir --compile --find-links /dist \
    'singer-arrow[notify,prometheus,opentelemetry]' 'singer-arrow-tap-s3-files[all]' \
    singer-arrow-tap-flight-sql singer-arrow-target-bigquery singer-arrow-target-redshift \
    $(ls /dist | grep -q singer_arrow_json && echo singer-arrow-json) \
    && useradd --create-home --uid 1000 singer
USER singer
WORKDIR /data
CMD ["bash", "-c", "tap-s3-files --version; tap-flight-sql --version; target-bigquery --version; target-redshift --version"]
