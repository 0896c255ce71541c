"""The web application: what the page asks for, and what it gets."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mpae.data.source import UnreadableImage
from mpae.errors import MPAEError
from mpae.prediction.outliers import find_outliers
from mpae.prediction.part_names import ChangedMeanwhile
from mpae.serve import pictures
from mpae.serve.changes import parse_change
from mpae.serve.security import Guard
from mpae.serve.session import Session
from mpae.serve.upload import UploadRefused, predict_upload, read_body

PAGE = Path(__file__).parent / "page"
TILE, PHOTO = 112, 400  # pixels along the longer side of a mask whose outlines are drawn
MOST_TILES, MOST_RESULTS, MOST_OUTLIERS = 120, 200, 500
EXAMPLES = 8  # in a strip of a part, certain ones and uncertain ones each
DECODERS = 4  # photos that are decoded at once, whoever asks: each may need some hundred megabytes
MAX_JSON = 200_000  # bytes of a request
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(session: Session, hosts: Collection[str] | None = None, token: str | None = None) -> Starlette:
    """The application for one session; its background work begins and ends with it."""
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.decoders = anyio.CapacityLimiter(DECODERS)
        app.state.uploads = anyio.CapacityLimiter(2)  # one that is read while one is predicted
        session.start()
        yield
        await run_in_threadpool(session.close)

    routes = [
        Route("/", page_file), Route("/page/{file}", page_file),
        Route("/api/state", state), Route("/api/photos", photos), Route("/api/tiles", tiles),
        Route("/api/photo/{row:int}", photo), Route("/api/examples", examples), Route("/api/outliers", outliers),
        Route("/api/search", search), Route("/api/search", search_upload, methods=["POST"]),
        Route("/api/parts", change_parts, methods=["POST"]), Route("/api/upload", upload, methods=["POST"]),
        Route("/thumbnail/{row:int}", thumbnail), Route("/photo/{row:int}", view),
        Route("/download/{row:int}/{kind}", download), Route("/coco.json", coco_file),
        Route("/api/samples", samples), Route("/sample/{number:int}", sample), Route("/preview.png", preview)]
    errors: dict[Any, Any] = {MPAEError: told, UnreadableImage: unreadable, OSError: not_written,
                              HTTPException: http_error}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors,
                    middleware=[Middleware(Guard, hosts=hosts, token=token)])
    app.state.session = session
    return app


# -- the page's own files

async def page_file(request: Request) -> Response:
    """One of the files that lie in page/: their names are compared, a path is never made of what was asked for."""
    wanted = request.path_params.get("file", "index.html")
    for path in PAGE.iterdir():
        if path.name == wanted and path.is_file():
            return FileResponse(path, headers={"cache-control": "no-cache"})
    raise HTTPException(404, "There is no such page.")


# -- what there is

async def state(request: Request) -> Response:
    session: Session = request.app.state.session
    now = session.now()
    names, shown = now.names, now.shown
    counts = (now.columns.share > 0).sum(axis=0).tolist()
    return JSONResponse({
        "run": session.run.folder.resolve().name, "numParts": session.num_parts, "revision": names.revision,
        "canUndo": bool(names.before), "version": shown.version, "images": len(shown.table),
        "gallery": session.folder is not None, "photos": session.source is not None,
        "search": shown.index is not None, "measured": shown.scores is not None,
        "model": session.predictor is not None,
        "job": {"state": session.state, "done": session.done, "total": session.total, "sentence": session.sentence},
        "parts": [{"index": part.index, "name": part.name, "members": part.members, "colour": part.hex_colour,
                   "hidden": part.hidden, "count": count} for part, count in zip(now.parts, counts, strict=True)]})


async def photos(request: Request) -> Response:
    """Rows of the photos that fit a filter, in an order; the page asks for what it shows of them later."""
    session: Session = request.app.state.session
    query = request.query_params
    now = session.now()
    columns = {part.index: number for number, part in enumerate(now.parts)}

    def chosen(key: str) -> list[int]:
        return [columns[index] for index in numbers(query.get(key, "")) if index in columns]

    part = chosen("part")
    rows = now.columns.choose(chosen("present"), chosen("absent"), query.get("order", "name"),
                              part[0] if part else None, query.get("descending") == "1")
    return JSONResponse({"version": now.shown.version, "rows": rows.tolist()})


async def tiles(request: Request) -> Response:
    """What small pictures show: names, sizes, parts and outlines."""
    session: Session = request.app.state.session
    rows = [checked_row(session, row) for row in numbers(request.query_params.get("rows", ""))[:MOST_TILES]]
    found = await run_in_threadpool(lambda: [describe_row(session, row, TILE) for row in rows])
    return JSONResponse({"tiles": found})


async def photo(request: Request) -> Response:
    session: Session = request.app.state.session
    row = checked_row(session, request.path_params["row"])
    return JSONResponse(await run_in_threadpool(describe_row, session, row, PHOTO))


def describe_row(session: Session, row: int, side: int) -> dict[str, Any]:
    now = session.now()
    table, columns = now.shown.table, now.columns
    try:
        box, paths = session.paths(row, side)
    except UnreadableImage:
        box, paths = "0 0 1 1", {}
    parts = [{"index": part.index, "share": rounded(columns.share[row, number]),
              "certainty": rounded(columns.certainty[row, number]), "unusual": rounded(columns.unusual[row, number])}
             for number, part in enumerate(now.parts) if columns.share[row, number] > 0]
    width, height = table.sizes[row].tolist()
    return {"row": row, "name": printable(table.names[row]), "width": width, "height": height, "box": box,
            "paths": paths, "parts": parts}


async def examples(request: Request) -> Response:
    """For each part its most and its least certain photos."""
    session: Session = request.app.state.session
    now = session.now()
    strips = {}
    for number, part in enumerate(now.parts):
        certain, uncertain = now.columns.examples(number, EXAMPLES)
        strips[part.index] = {"certain": certain, "uncertain": uncertain}
    return JSONResponse({"strips": strips})


async def outliers(request: Request) -> Response:
    session: Session = request.app.state.session
    shown, names = session.shown, session.names()
    if shown.scores is None:
        return JSONResponse({"outliers": [], "total": 0})
    parts = [part.members for part in names.shown()]
    found = await run_in_threadpool(find_outliers, shown.scores, shown.table.present, parts)
    listed = [{"row": each.image, "part": names.part_of(each.part).index, "score": each.score, "why": each.why}
              for each in found[:MOST_OUTLIERS]]
    return JSONResponse({"outliers": listed, "total": len(found)})


# -- search

async def search(request: Request) -> Response:
    """The photos whose part is most like that of a photo of the gallery."""
    session: Session = request.app.state.session
    query = request.query_params
    row = checked_row(session, first_number(query.get("row", "")))
    part = session.names().part_of(first_number(query.get("part", "")))
    index = searchable(session)
    areas = session.shown.table.share[row, [member - 1 for member in part.members]]
    largest = part.members[int(areas.argmax())]
    found = await run_in_threadpool(index.search, index.vector(row, largest), largest, part.members,
                                    top_of(query.get("top", "40")), row)
    return JSONResponse({"matches": [{"row": each.image, "similarity": each.similarity} for each in found]})


async def search_upload(request: Request) -> Response:
    """The same for a part of a photo that was dropped: the page brings its features back, for we kept nothing."""
    session: Session = request.app.state.session
    content = await read_json(request)
    vector, part = content.get("vector"), content.get("part")
    if not isinstance(vector, list) or not all(type(value) in (int, float) for value in vector):
        raise MPAEError("A search needs the numbers of a part; drop the photo again.")
    index = searchable(session)
    part = part if type(part) is int else 0
    members = session.names().part_of(part).members
    query = np.array(vector, dtype=np.float64).astype(np.float32)
    found = await run_in_threadpool(index.search, query, part, members, top_of(str(content.get("top", 40))))
    return JSONResponse({"matches": [{"row": each.image, "similarity": each.similarity} for each in found]})


def searchable(session: Session) -> Any:
    if session.shown.index is None:
        raise MPAEError("There is nothing to search in yet: the photos are still being predicted, or their folder "
                        "has no features.npy.")
    return session.shown.index


# -- changes

async def change_parts(request: Request) -> Response:
    session: Session = request.app.state.session
    content = await read_json(request)
    revision = content.get("revision")
    if type(revision) is not int:
        raise MPAEError("A change needs the revision that it started from; load the page again.")
    await run_in_threadpool(session.change_names, parse_change(content), revision)
    return await state(request)


async def upload(request: Request) -> Response:
    """The parts of a photo that was dropped; it is kept nowhere."""
    session: Session = request.app.state.session
    async with request.app.state.uploads:  # whoever waits here has not sent the photo yet
        content = await read_body(request)
        found = await run_in_threadpool(predict_upload, session, content, request.headers.get("x-name", ""))
    return JSONResponse(found)


# -- photos to try

async def samples(request: Request) -> Response:
    """Names of a few photos that the run was trained on; nothing for those who look from elsewhere."""
    session: Session = request.app.state.session
    if session.samples is None:
        return JSONResponse({"samples": [], "preview": False})
    names = await run_in_threadpool(session.samples.names)
    return JSONResponse({"samples": list(map(printable, names)), "preview": session.samples.preview() is not None})


async def sample(request: Request) -> Response:
    session: Session = request.app.state.session
    if session.samples is None:
        raise HTTPException(404, "There is no such photo.")
    number = request.path_params["number"]
    content = await anyio.to_thread.run_sync(pictures.sample, session.samples, number,
                                             limiter=request.app.state.decoders)
    return Response(content, media_type="image/jpeg")


async def preview(request: Request) -> Response:
    session: Session = request.app.state.session
    file = session.samples.preview() if session.samples is not None else None
    if file is None:
        raise HTTPException(404, "There is no such picture.")
    return FileResponse(file, media_type="image/png")


# -- pictures and files

async def thumbnail(request: Request) -> Response:
    return await picture(request, pictures.thumbnail)


async def view(request: Request) -> Response:
    return await picture(request, pictures.view)


async def picture(request: Request, make: Callable[[Session, int], bytes]) -> Response:
    session: Session = request.app.state.session
    row = checked_row(session, request.path_params["row"])
    content = await anyio.to_thread.run_sync(make, session, row, limiter=request.app.state.decoders)
    return Response(content, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


async def download(request: Request) -> Response:
    session: Session = request.app.state.session
    row, kind = checked_row(session, request.path_params["row"]), request.path_params["kind"]
    name = session.shown.table.names[row]
    makers: dict[str, tuple[str, str, Callable[[], bytes]]] = {
        "mask": (".png", "image/png", lambda: pictures.png(session.mask(row))),
        "overlay": (".jpg", "image/jpeg", lambda: pictures.overlay_of(session, row)),
        "coco": (".json", "application/json", lambda: json.dumps(
            pictures.coco_of(printable(name), np.asarray(session.mask(row)), session.names())).encode())}
    if kind not in makers:
        raise HTTPException(404, "There is no such file.")
    ending, media_type, make = makers[kind]
    content = await anyio.to_thread.run_sync(make, limiter=request.app.state.decoders)
    file = quote(f"{Path(printable(name)).stem}-{kind}{ending}")
    return Response(content, media_type=media_type,
                    headers={"content-disposition": f"attachment; filename*=UTF-8''{file}"})


async def coco_file(request: Request) -> Response:
    """All photos as one COCO file with the names as they are now, written as it is sent."""
    session: Session = request.app.state.session
    return StreamingResponse(pictures.coco_pieces(session), media_type="application/json",
                             headers={"content-disposition": 'attachment; filename="coco.json"'})


# -- what comes in

def numbers(text: str) -> list[int]:
    """'3,5' as numbers; what is no number is left out."""
    return [int(word) for word in text.split(",") if word.isascii() and word.isdigit() and len(word) < 10]


def first_number(text: str) -> int:
    found = numbers(text)
    return found[0] if found else -1


def top_of(text: str) -> int:
    return max(1, min(first_number(text), MOST_RESULTS))


def checked_row(session: Session, row: int) -> int:
    if not 0 <= row < len(session.shown.table):
        raise HTTPException(404, "There is no such photo.")
    return row


async def read_json(request: Request) -> dict[str, Any]:
    content = await read_body(request, MAX_JSON)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise HTTPException(400, "Expected JSON with names and values.")
    return found


def rounded(value: float) -> float:
    value = float(value)
    return round(value, 4) if math.isfinite(value) else 0.0


def printable(name: str) -> str:
    """A name that UTF-8 can hold; file names may be any bytes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


# -- what goes wrong

async def told(request: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, ChangedMeanwhile) else 413 if isinstance(error, UploadRefused) else 400
    return JSONResponse({"sentence": printable(str(error))}, status_code=status)


async def unreadable(request: Request, error: Exception) -> Response:
    return JSONResponse({"sentence": f"This photo cannot be shown: {printable(str(error))}."}, status_code=404)


async def not_written(request: Request, error: Any) -> Response:
    """A full disk, or a run folder that is only to be read."""
    sentence = (f"The disk refused it ({error.strerror or type(error).__name__}), and nothing was changed; make room, "
                "or allow writing to the run folder.")
    return JSONResponse({"sentence": sentence}, status_code=500)


async def http_error(request: Request, error: Any) -> Response:
    return JSONResponse({"sentence": str(error.detail)}, status_code=error.status_code)
