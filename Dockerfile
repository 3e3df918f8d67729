# All connectors, from the wheels in dist/ (`make build` writes them):
#   docker build -t singer-arrow .
#   docker run --rm -v "$PWD":/data singer-arrow singer-arrow run pipeline.yml
FROM python:3.13-slim
# Compiled here: the user singer cannot keep bytecode, so each start would compile everything again.
RUN --mount=type=bind,source=dist,target=/dist \
    cd /dist && pip install --no-cache-dir --compile \
    "$(echo ./singer_arrow-*.whl)[notify,prometheus,opentelemetry]" "$(echo ./singer_arrow_tap_s3_files-*.whl)[dask,delta,excel,iceberg,pgp]" \
    ./singer_arrow_tap_flight_sql-*.whl ./singer_arrow_target_bigquery-*.whl ./singer_arrow_target_redshift-*.whl \
    $(find . -name 'singer_arrow_json-*.whl') \
    && useradd --create-home --uid 1000 singer
USER singer
WORKDIR /data
CMD ["bash", "-c", "tap-s3-files --version; tap-flight-sql --version; target-bigquery --version; target-redshift --version"]
