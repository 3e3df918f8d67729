"""A source writes numbers and dates in another way, and the settings follow: new values go where the former are."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tap_source import Source, moment, state_of
from warehouses import Warehouse

from local_cloud.programs import Programs


def test_new_values_go_into_the_same_columns(s3: Any, bucket: str, tap: Programs, warehouse: Warehouse) -> None:
    source = Source(s3, bucket, tap)
    source.put("in/1.csv", "id,v,day,name\n1,1.5,2024-05-01,1.5 kg\n2,1000.25,2024-05-02,x\n", at=moment(0))
    first = source.run()
    warehouse.load(first.stdout)
    source.put("in/2.csv", "id;v;day;name\n3;2,5;31/05/2024;2,5\n4;1.000,75;01/06/2024;y\n", at=moment(60))
    spelled = {"decimal_point": ",", "thousands_separator": ".", "date_formats": ["%d/%m/%Y"]}
    config = source.config(stream=spelled, batch_config=source.batches())
    second = source.run(config, state=state_of(first))
    warehouse.load(second.stdout)
    source.put("in/3.csv", "id;v;day;name\n5;3,5;02/06/2024;z\n", at=moment(120))
    warehouse.load(source.run(config, state=state_of(second)).stdout)
    rows = [(row["id"], row["v"], row["day"], row["name"]) for row in warehouse.table()]
    assert rows == [
        (1, 1.5, dt.date(2024, 5, 1), "1.5 kg"),
        (2, 1000.25, dt.date(2024, 5, 2), "x"),
        (3, 2.5, dt.date(2024, 5, 31), "2,5"),
        (4, 1000.75, dt.date(2024, 6, 1), "y"),
        (5, 3.5, dt.date(2024, 6, 2), "z"),
    ]
    assert [name for name in warehouse.columns("rows") if "__" in name] == []
