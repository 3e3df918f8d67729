"""VARIANT columns of other writers, shredded or not, converted to JSON at any depth."""

from __future__ import annotations

import base64
import json
import zlib
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import WRITERS
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.casting.extension_types import VariantType, decode, names_of
from singer_arrow.casting.from_arrow import fit
from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import is_json, json_field

FILES = {
    # By DuckDB 2.0: fifteen rows, in which members of objects, items of lists, and decimals have columns of their own.
    "objects": (
        "c-pO2&ui2`6rP!6*ZtL+t(}-iSXZGTN~u*_4`mNqDXr8VicmZ#mShvLwzbl3mlX=G(2IiLsfAj4@KDr)_y>3qFCL1g)`Q1_XT^gT"
        "L49vFE7|O}R@ULYBr|#WzHh!vW_Nt>%2`f$nU}kH1}>sJN<^cO3{rxWAtR7@>kwoNG7g!5OhTq0+aTK^0pk^e2*90y;lUsG$-WJ7"
        "DTA;bsY-u<6OvOI9+G6c;Cl5pQ8A^2+M)im-v@b>2t+{XAS!+M^7d)cLPJp!Bavt)dMHfGvK8O5zRHd@fBb1g_$#BN?yDnJM{}sl"
        "b_yAE9)#+QF^L@RK&*to>ckfkfA<1`GyzVsBn`*$<hAWLt8Yh_9?z|f4h)=8F2i7c7!KwC(vISkBoa@ieOhp{%qZH3TE_UV2VZu+"
        "edb)|9lT?VGw!dLbkQpp!QCem0*#gfMh{PX<gFMD%LVWhu8hGcuw;Sn1BD3ljZCbz#y80RQUT15C`5Qk4Nt7J#0=9&@PzLxPP4q1"
        "rz0&gp{IGnAf%SnMJ8CqtB?5}RQz!kDwoA>0b4@8B31yjWl=~JMl2FWSE?n|r<7VhUpp|)^sRoPwYiIhY1f%tDBSX9Z7vhex`@W6"
        "+^&<PpJ}wjqt{c}BdCz4;7)ATE84DIw6V*yNXedA^sq8nym!}gCq*A%0GbN8KovmO*C7YgIpMlgxQ-AtqZ|5?Nes}<iH-_64617s"
        "!i?oK8TUv{Sfmmw&`YO@Zg5;dXfPtA5W%9QKXVaC+YG{dMsr#+u=8mWOkHJG!`R-i)maG4%?O0~UCL?chMh#q?7tVOQS09yYN|@s"
        "FVRxaPihA=?otTzecW7+8(Ku{EB;9}R8~KN@ZGp406fQ!hY@vC;Ww&OtSMF9!a%|e24Ox=nm-eUCNuG(a1QD*RSx!>ku9fdWWwz*"
        "nG=}TYYJhmx8*Km4&;f`AoLT3Fu%5&TkVEM%Mij5an(%Rt`MhgC~C%x!HHPb5PV%j7qcaAeqn0vPPTNer?;m!YdMQkGj7)H?<+Wt"
        "ciz2uN?*e7wjszS{B(`OKZ)P{UJu3"
    ),
    "lists": (
        "c-pm9L1+^}6rGu!O_OF@jdqq<SmIjJWra|yHkXn^D@C#PP`oHuS~l4gL(^8;ZHORPFW!VIQlVbNn?*c&@**C+w%}F4tAd9f6x9DG"
        "Y1~*E6z%Ze?);hA|Neh7lT3|WIwgpxi+WyUp_32^q8bG-fCk_I9e`6^fFvLV=mw+#2A~Jf3xF6e7+5UaaTp%^cAIo;7?(0Izoa$j"
        "|KNq>l*30F_sc=pK8YDqN~r&vKiBjjy{{ZBmgyK~dUtcvCI8S+1qPK6y{ivZ)a$65!`7Rs4X<u{OUEATN@9*#<u9Lah+4$d{8D+K"
        "6(ZZmRG(?&&=HLhy<5dpqp3H~FrK7})*%^qPNlDIy?XR|;?}*zjfs(wlZSDS7*?N&!g_QOywP*;sQ;IS^poPpozL4}J_-==9RtgY"
        "T-(m`RoYQ69~W8oa~B@08RVdvN+G6J<8U{&2IZkdaFG<rNx?*OITW$Mz_1?vxAnYVgL<mzgR6%TF>2d{>_S~q^%{-!oo1<UxCFDF"
        "7l`Z$R?2fhX?D4MJ)HLihw%X-StS_gCj};HO(dob=cp3EfSKfc82N!8`RFpK*Zk^Ah%3|4%^P7bt9%eGK?+>*YGpYRi~vtpSPkdH"
        "g$Nm99|BwZr$B3FE!&!Qi47?VVqr1@2F(o$<|d1h<CT)CD3f?GFOwmbEpVrBH!*^N5j<LJrL7`uF);TjEy{H4=R#^wrOCWKWBZ3~"
        "RH0%%(ZSputtc~lE}iWDb>+;2*LlG{Y*%P4u9K2>SJYM-IrBRMbJtTvnQ9$v=$N+G=I<o|t$9b1whczA4-CwGX}Av!TXL#)0iR~S"
        "$>Kh8<>AU8m%w|)h`G}%W?<!~UNh?^;YB=e91i06S*I2*Emsy7oZ9KZp}`@?E3H(jffE#l%cW9yCb)LOn#Lm@Gx8Q{n1Vm9pL4+C"
        "T>"
    ),
    "decimals": (
        "c-pO0&1=*^6rY()w%N^A8|}mi#5D>VqAay)_fq!Im7=ijVG)W4izT~>xO8i!-Cb4?)PqOCQ-yl-AlO6y0P!OJ3$1wc;#u$@f(LzX"
        "(vRq35$f=Mle{;{?|mkX>h%kPh=CZCL;-FxB16=o00z(i9H0a6XaryYvVa`G1mppufFl6l*km9ny3=5;{&+|ZT*ylqNZ8a8_y2G~"
        "=aj=s8V_4h{QDtBOevw^ANt~s4&lAgK~j-cG1A(`#yN6`g;ijX3DHN!v5NWt!_*kjGfG#bn|ibztekqGt2%QGt#spRQrQZ|7dBhP"
        "J)XiiQ};|GM~@*<P7x_<_Wf(*lZu&m#DcwH-rRco{9WzA)8+Nr^z`{LY!t&1SlxKgy$0IM71##<Wu3t6G?F!~oggq}^hQ;tb@B7@"
        "m+h~gh2X*vMqMxg*0p3*o>35N08cgG$=sYcOaowy#Ek0_vWukOhPpA5dFEs+d6=U?FsD-{ay06-7Nh3EYU@tC6bcUZB9W{e70-||"
        "le8}~^Lg($W-0P;Vl2hoFbcaNs!Zzru+xk2B__@8{d;k=pe)54q?aqr;|{Od1;=&jK5@aTAP({iFxu-B#5XFE;{-|k=!i{%lxA7P"
        "aRt^5JC6)`WC&<~FA~MH#X$U*v?9&a*C90s+-AX$?eDZnMvC*34&r~)D$*JnFPYmPE}I7jKQQbK%D~ZEx@OAfM+)M9&-x#-uH<W~"
        "4!GN{&C)tjmY}*w2^)uty=jVD@Z>AgF8BsqND$0IcV{nq{di@yy?oc}U!0hnnDl~Xuic5fs65qbHsedt?XylD=Vn*PNr<xnzsX-#"
        "!m+a"
    ),
}
ROWS = [
    '{"a":1,"b":"x"}',
    "[1,null]",
    None,
    "1.50",
    '"2020-01-02T03:04:05.123456Z"',
    "true",
    '"2020-01-02"',
    '"YWJj"',
    '{"a":2,"c":{"d":[1,2],"e":"é"}}',
    "9007199254740993",
    '"0b5bd4bc-97c1-4a7c-8d6f-9a4a3a3a2f10"',
    '{"a":"text"}',
    f'"{"x" * 70}"',
    '[1,"x",{"k":null}]',
    '"2020-01-02T03:04:05.123456789Z"',
]


def exact(text: str | None) -> Any:
    return None if text is None else json.loads(text, parse_float=lambda t: (Decimal(t), t))


@pytest.mark.parametrize("name", FILES)
def test_files_of_another_program(objects: Any, name: str) -> None:
    data = zlib.decompress(base64.b85decode("".join(FILES[name])))
    schema = FORMATS["parquet"].infer(objects.reader(data, "a.parquet"), ReadOptions(), sample_bytes=1)
    assert is_json(schema.field("v"))
    (batch,) = FORMATS["parquet"].read(objects.reader(data, "a.parquet"), schema, ReadOptions())
    assert [exact(text) for text in batch.column("v").to_pylist()] == [exact(text) for text in ROWS]
    (few,) = FORMATS["parquet"].read(objects.reader(data, "a.parquet"), pa.schema([("id", pa.int32())]), ReadOptions())
    assert few.num_rows == len(ROWS)


NAMES, MEMBER, DAMAGED = b"\x01\x01\x00\x01k", b"\x02\x01\x00\x00\x02\x0c\x07", b"\x02\x01\x00\x00\x09\x0c"
STORAGE = pa.struct([pa.field("metadata", pa.binary(), nullable=False), ("value", pa.binary())])


def variants(*values: bytes | None) -> pa.ExtensionArray:
    rows = [None if v is None else {"metadata": NAMES, "value": v} for v in values]
    return pa.ExtensionArray.from_storage(VariantType(STORAGE), pa.array(rows, STORAGE))


def nested() -> dict[str, tuple[pa.Array, list[Any]]]:
    some = variants(MEMBER, None, b"\x0c\x05")
    struct = pa.StructArray.from_arrays([some], fields=[pa.field("v", some.type)])
    return {
        "alone": (some, ['{"k":7}', None, "5"]),
        "struct": (struct, [{"v": '{"k":7}'}, {"v": None}, {"v": "5"}]),
        "list": (pa.ListArray.from_arrays([0, 2, 2, 3], some), ['[{"k":7},null]', "[]", "[5]"]),
        "objects": (
            pa.ListArray.from_arrays([0, 2, 2, 3], struct),
            [[{"v": '{"k":7}'}, {"v": None}], [], [{"v": "5"}]],
        ),
        "map": (
            pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["a", "b", "c"]), some),
            ['{"a":{"k":7}}', '{"b":null}', '{"c":5}'],
        ),
    }


@pytest.mark.parametrize("name", nested())
def test_variants_at_any_depth(objects: Any, name: str) -> None:
    column, expected = nested()[name]
    data = WRITERS["arrow"](pa.table({"v": column}))
    schema = FORMATS["arrow"].infer(objects.reader(data, "a.arrow"), ReadOptions(), sample_bytes=1)
    (batch,) = FORMATS["arrow"].read(objects.reader(data, "a.arrow"), schema, ReadOptions())
    assert batch.column("v").to_pylist() == expected


def test_an_element_without_any_value_is_null() -> None:
    element = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    typed = pa.array([[{"value": None, "typed_value": 4}, {"value": None, "typed_value": None}]], pa.list_(element))
    parts = [pa.array([NAMES]), pa.array([None], pa.binary()), typed]
    fields = [pa.field("metadata", pa.binary(), nullable=False), ("value", pa.binary()), ("typed_value", typed.type)]
    storage = pa.StructArray.from_arrays(parts, fields=[f if isinstance(f, pa.Field) else pa.field(*f) for f in fields])
    column = pa.ExtensionArray.from_storage(VariantType(storage.type), storage)
    assert fit(column, json_field("v")).to_pylist() == ["[4,null]"]


def test_a_damaged_value_is_a_bad_row(objects: Any) -> None:
    data = WRITERS["arrow"](pa.table({"id": [1, 2, 3], "v": variants(MEMBER, DAMAGED, None)}))
    schema = pa.schema([("id", pa.int64()), json_field("v")])
    with pytest.raises(DataError, match=r"a\.arrow.*column 'v'"):
        list(FORMATS["arrow"].read(objects.reader(data, "a.arrow"), schema, ReadOptions()))
    progress = ReadProgress()
    reading = FORMATS["arrow"].read(objects.reader(data, "a.arrow"), schema, ReadOptions(on_bad_row="skip"), progress)
    assert [row for batch in reading for row in batch.to_pylist()] == [{"id": 1, "v": '{"k":7}'}, {"id": 3, "v": None}]
    assert progress.skipped == 1


@given(st.binary(max_size=60))
def test_damaged_bytes_are_an_error_or_a_value(data: bytes) -> None:
    for read in (lambda: decode(data, ["a", "b"]), lambda: names_of(data)):
        with suppress(ValueError):
            read()


def test_parts_that_lie_over_each_other_are_refused() -> None:
    array = bytes([0b0000_0011, 40, *([0] * 40), 1])  # of forty items at one place, each of which is such an array
    value = array + b"\x00"
    for _ in range(3):
        value = bytes([0b0000_0011, 40, *([0] * 40), 1]) + value
    with pytest.raises(ValueError, match="its parts overlap"):
        decode(value, [])
