/**
 * In which stretches of the ledger a name may occur. Rows are found by their position alone, so that a commit writes no
 * index by name. The sweep looks at what has come since the last one and notes for each 256 events which resources and
 * holders they name, as the bits of a Bloom filter (32 for each event). A name is then looked for in the spans that may
 * have it, of which 1 in 400 or fewer do not, and in what the sweep has not come to yet.
 */
import { createHash } from 'node:crypto'
import type { LeaseEvent } from '../../core/event.ts'
import { ROW_MAX, LOAD_STATE, rowPosition, scriptOf, type Script } from './redis-layout.ts'
import type { RedisNamespace } from './redis-namespace.ts'
import type { RedisReader, RowRange, Walk } from './redis-reader.ts'
import { eventOf } from './redis-records.ts'

const SPAN_EVENTS = 256
/** What a driver sends is text in UTF-8, in which a character of seven bits is one byte. */
const BITS_PER_CHAR = 7
const CHARS = 1_171
const BITS_PER_NAME = 4
/** How many pages of rows a sweep looks at: some 80,000 events. */
const PAGES_PER_SWEEP = 40
/** Of a megabyte. */
const SPANS_PER_PAGE = 800

/** A name as an event has it. */
export function bitsOf(name: string): readonly number[] {
  const digest = createHash('sha256').update(name).digest()
  return Array.from({ length: BITS_PER_NAME }, (_, index) => {
    return digest.readUInt32LE(4 * index) % (CHARS * BITS_PER_CHAR)
  })
}

/** Rows that follow each other. */
class Span {
  readonly #names = new Set<string>()
  #first = ''
  #last = ''
  #events = 0

  /** Rows are never divided. */
  hasRoomFor(row: string): boolean {
    return row === this.#last || this.#events < SPAN_EVENTS
  }

  add(row: string, { resource, holder }: LeaseEvent): void {
    if (this.#first === '') this.#first = row
    this.#last = row
    this.#events += 1
    for (const name of [resource, holder]) this.#names.add(JSON.stringify(name))
  }

  /** As `NOTE_SPANS_SCRIPT` takes it. */
  get noted(): readonly string[] {
    const chars = Buffer.alloc(CHARS)
    for (const bit of [...this.#names].flatMap(bitsOf)) {
      const at = Math.floor(bit / BITS_PER_CHAR)
      chars[at] = (chars[at] ?? 0) | (1 << (bit % BITS_PER_CHAR))
    }
    return [this.#last, this.#first, chars.toString('latin1')]
  }
}

/**
 * Adds spans behind the last one, unless another process has done so meanwhile, and forgets those of which no row is left. ARGV:
 * the last one, then of each its last row, its first and its names. Answers with the last one now. Also on a server that is
 * out of memory, where nothing is added to the ledger either.
 */
const NOTE_SPANS_SCRIPT: Script = scriptOf(
  'deletes',
  `${LOAD_STATE}
local spans = P .. 'spans'
local oldest = call('XRANGE', P .. 'ledger', '-', '+', 'COUNT', 1)[1]
if oldest then call('XTRIM', spans, 'MINID', oldest[1]) else call('DEL', spans) end
local newest = call('XREVRANGE', spans, '+', '-', 'COUNT', 1)[1]
local last = newest and newest[1] or ''
if last ~= ARGV[1] then return last end
for n = 2, #ARGV, 3 do
  last = call('XADD', spans, ARGV[n], 'first', ARGV[n + 1], 'names', ARGV[n + 2])
end
return last
`,
)

/**
 * The spans that may have a name. ARGV: command, from which on, how many to look at, then the bits of the name. Answers with
 * the last span that there is, where to go on ('' at the end), then of each the last row and the first.
 */
const SEEK_SCRIPT: Script = scriptOf(
  'reads',
  `${LOAD_STATE}
local spans, from = P .. 'spans', ARGV[2]
local newest = call('XREVRANGE', spans, '+', '-', 'COUNT', 1)[1]
local found
if ARGV[1] == 'XRANGE' then
  found = call('XRANGE', spans, from, '+', 'COUNT', ARGV[3])
else
  found = call('XREVRANGE', spans, from, '-', 'COUNT', ARGV[3])
end
local answer = { newest and newest[1] or '', #found == tonumber(ARGV[3]) and found[#found][1] or '' }
local function mayHave(names)
  for n = 4, #ARGV do
    local at = math.floor(ARGV[n] / ${BITS_PER_CHAR})
    local char = string.byte(names, at + 1)
    if math.floor(char / 2 ^ (ARGV[n] - at * ${BITS_PER_CHAR})) % 2 == 0 then return false end
  end
  return true
end
for _, span in ipairs(found) do
  if mayHave(span[2][4]) then
    answer[#answer + 1] = span[1]
    answer[#answer + 1] = span[2][2]
  end
end
return answer
`,
)

/** Notes which names have come, up to what no longer fills a span. */
export async function noteSpans(
  namespace: RedisNamespace,
  reader: RedisReader,
  bucket: number,
): Promise<void> {
  const note = async (after: string, spans: readonly Span[]): Promise<string> => {
    const args = [after, ...spans.flatMap(({ noted }) => noted)]
    return (await namespace.run(bucket, NOTE_SPANS_SCRIPT, args)) as string
  }
  let last = await note('', [])
  let span = new Span()
  let pages = 0
  const walk = { bucket, low: rowPosition(last) + 1, high: ROW_MAX, wanted: 'rows' } as const
  for await (const shown of reader.pages(walk)) {
    const full: Span[] = []
    for (const [row, position, text] of shown) {
      if (!span.hasRoomFor(row)) {
        full.push(span)
        span = new Span()
      }
      span.add(row, eventOf(text, Math.abs(position)).event)
    }
    const expected = full.at(-1)?.noted[0] ?? last
    last = await note(last, full)
    pages += 1
    // Another process notes them, or the next sweep.
    if (last !== expected || pages === PAGES_PER_SWEEP) return
  }
}

/** The stretches of a walk in which a name may occur, in its order. */
export async function* stretchesWith(
  namespace: RedisNamespace,
  { bucket, newestFirst = false, low, high }: Walk,
  name: string,
): AsyncGenerator<RowRange> {
  const bits = bitsOf(name).map(String)
  const [command, start] = newestFirst ? ['XREVRANGE', '+'] : ['XRANGE', String(low)]
  let noted: number | null = null
  for (let cursor: string | null = start; cursor !== null;) {
    const args = [command, cursor, String(SPANS_PER_PAGE), ...bits]
    const reply = (await namespace.run(bucket, SEEK_SCRIPT, args)) as readonly string[]
    const [last = '', next = '', ...rows] = reply
    // What was noted meanwhile lies behind what was not, which has been gone through.
    if (newestFirst && noted === null) yield { low: Math.max(low, rowPosition(last) + 1), high }
    noted = rowPosition(last)
    for (let at = 0; at < rows.length; at += 2) {
      const [spanLast, spanFirst] = [rowPosition(rows[at] ?? ''), rowPosition(rows[at + 1] ?? '')]
      yield { low: Math.max(low, spanFirst), high: Math.min(high, spanLast) }
    }
    cursor = next === '' ? null : `(${next}`
  }
  if (!newestFirst) yield { low: Math.max(low, (noted ?? 0) + 1), high }
}
