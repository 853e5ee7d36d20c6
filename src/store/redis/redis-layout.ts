/**
 * How a namespace lies on the server, and what every script begins with.
 *
 * Keys of a bucket, after its prefix `tenure:{NAMESPACE}:` or `tenure:{NAMESPACE/BUCKET}:`
 *
 *     live           hash of what is live: by id each lease, offer and ticket; by name each realm, and of a tree each
 *                    resource that has a live entry; `state` is the state of the bucket, the field `pruned` the
 *                    position of the last end that was pruned
 *     ledger         stream; a row holds up to 4 events, each by its offset from the position of the row
 *     known          hash: by lease id and request id the positions of its events
 *     due            sorted set of live ids, by deadline
 *     tree           sorted set of the resources of trees that have live entries, by name
 *     unrecorded     sorted set of live ids without an event in the ledger, by creation
 *     epochs         hash: by resource
 *     h:HOLDER       set of live ids; s:SESSION the same
 *     marks:DAY      hash: what request ids have done without an event in the ledger; months:MONTH for long TTLs
 *     spans          stream: by the last row of each part of the ledger its first row, and the names in it (redis-spans.ts)
 *     settings       hash
 *     refusals       hash: by resource, holder and reason what was refused; refused the same keys in a sorted set, by time
 *     pruned         a key of its own, besides that field of `live`: where pruning has got to, and by which clock
 *     e              a text where layout 4 had a hash, so that every script of that version fails before it writes
 *
 * Values are words with one space between them; a number is written in one way only, so that equal texts are equal numbers.
 *
 *     state    the fields of `STATE` below
 *     entry    version claim fence untilUs created RECORD       (redis-records.ts writes and reads RECORD)
 *     realm    wallMs fence tickets, then `id claim+extent ` for each live entry at a resource
 *     event    leaseId fence atMs version RECORD                (version of the entry that it ended, else 0)
 *     known    [first][ length][@[prior]], for an id that is that of a lease, of a request, or of both.
 *              first length: the position of the first event of a lease that has ended, or was ended once, and the distance
 *              from there to its end. @prior: the position of the last event of a request, left out if that is the first.
 *              `1700 250@`: the first event is at 1700, the end at 1950, and the request did last what is at 1700
 *     mark     leaseId type keepUntilMs
 *     refusal  count lastAtMs leaseId DETAIL
 *
 * Of an event the fence and the time are written by their offset from its position, `-` for no fence; in its RECORD
 * other times are counted from its own. Layout 5 wrote all in full, and its events stay as they are: what follows the
 * id of the lease is only looked at by functions that take both forms (`wordsOf` here, `eventOf` in redis-records.ts).
 */
import type { CommandEffect } from '../../drivers/redis-errors.ts'

export const LAYOUT_VERSION = 6
/** The layout before, which differs in its events alone; and that which redis-old-layout.ts reads. */
export const FORMER_LAYOUT_VERSION = 5
export const OLD_LAYOUT_VERSION = 4
export const KEY_PREFIX = 'tenure'

/**
 * Events in one row of the stream. A row can only be removed as a whole, so one event that must stay keeps few others; and the
 * server keeps rows in blocks of 4 KiB, which large ones fill badly (with 16 an ended pair took 30 bytes more).
 */
export const EVENTS_PER_ROW = 4
export const DAY_MS = 86_400_000
/** A mark of one month is found in the next one too, so it is kept as long as the longest TTL. */
export const MONTH_DAYS = 31

/** Behind every row of the ledger. */
export const ROW_MAX: number = Number.MAX_SAFE_INTEGER

/** Of a row of the ledger or of the spans; 0 if there is none. */
export function rowPosition(row: string): number {
  return Number(row.split('-', 1)[0])
}

/**
 * What a script declares of the keys of a bucket, which it makes itself from the first of these. No key has that name, so a
 * server of a Cluster always finds one of the two missing, and so refuses the script while the slot moves (`TRYAGAIN`).
 * With one name alone it would run it beside the keys that have been moved, and the rest would count as empty.
 */
export function declaredKeys(prefix: string): readonly string[] {
  return [prefix, `${prefix}:live`]
}

/**
 * What a script answers with when the bucket belongs to another incarnation of the namespace than the caller means: it was
 * deleted and created again.
 */
export const ANOTHER = 'another'

/** What the state of a bucket says, in this order. All but the first are numbers. */
const STATE = [
  /** Layout, number of buckets and a random id of this incarnation of the namespace: what every script compares. */
  'identity',
  /** The last position of the ledger that was given. */
  'last',
  /** The highest time of the server's clock at which something was committed. */
  'high',
  /** Of the settings. */
  'revision',
  /** The highest fence of the realms that were forgotten; at first the time at which the bucket was made. */
  'floor',
  /** The last day and month in which a mark was written. */
  'markDay',
  'markMonth',
] as const

export type BucketState = Readonly<Record<(typeof STATE)[number], string>>

/** The state of a bucket that is new, or to which a conversion brings some of it. */
export function newStateText(state: Partial<BucketState> & Pick<BucketState, 'identity'>): string {
  return STATE.map((field) => state[field] ?? '0').join(' ')
}

export function stateOf(text: string): BucketState {
  const words = text.split(' ')
  return Object.fromEntries(STATE.map((field, at) => [field, words[at] ?? '0'])) as BucketState
}

const STATE_PATTERN = `^(%S+)${' (%d+)'.repeat(STATE.length - 1)}$`
const STATE_NUMBERS = STATE.slice(1)

/**
 * Lua cannot pass more than about 8000 values to a function, and prints large numbers with an exponent unless told
 * otherwise.
 */
const COMMON = `
local P = KEYS[1] .. ':'
-- What is left of ARGV is the script's own.
local identity, setClock = table.remove(ARGV, 1), tonumber(table.remove(ARGV, 1))
local call, find, format, match, sub = redis.call, string.find, string.format, string.match, string.sub
local function int(number) return format('%d', number) end
-- A hash as a table: a field is read when it is first looked at, and is false if there is none.
local function hash(key)
  return setmetatable({}, { __index = function(fields, name)
    fields[name] = call('HGET', P .. key, name)
    return fields[name]
  end })
end
-- Reads many of its fields at once.
local function fetch(key, names, fields)
  for first = 1, #names, 4000 do
    local values = call('HMGET', P .. key, unpack(names, first, math.min(first + 3999, #names)))
    for n = 1, #values do fields[names[first + n - 1]] = values[n] end
  end
end
local function send(command, key, list)
  for first = 1, #list, 4000 do
    call(command, P .. key, unpack(list, first, math.min(first + 3999, #list)))
  end
end
-- Of 'hash', 'set' or 'sorted'. A value of false takes the name away; that in a sorted set is a score, which comes first.
local COMMANDS = { hash = { 'HSET', 'HDEL' }, set = { 'SADD', 'SREM' }, sorted = { 'ZADD', 'ZREM' } }
local function writeAll(kind, key, values)
  local puts, removes = {}, {}
  for name, value in pairs(values) do
    local list = value and puts or removes
    if value and kind == 'sorted' then list[#list + 1] = value end
    list[#list + 1] = name
    if value and kind == 'hash' then list[#list + 1] = value end
  end
  send(COMMANDS[kind][1], key, puts)
  send(COMMANDS[kind][2], key, removes)
end
local function clock()
  if setClock then return setClock end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end
local state
local function readState(text)
  local ${STATE.join(', ')} = match(text or '', '${STATE_PATTERN}')
  if not identity then return nil end
  return { identity = identity, ${STATE_NUMBERS.map((field) => `${field} = tonumber(${field})`).join(', ')} }
end
local function stateText()
  return format('${['%s', ...STATE_NUMBERS.map(() => '%d')].join(' ')}', ${STATE.map((field) => `state.${field}`).join(', ')})
end
`

/** What the ledger has of an id, and the event at a position. \`appended\` has those of this call. */
const LEDGER = `
local live, known, spans, appended = hash('live'), hash('known'), {}, {}
local function knownOf(id)
  if not spans[id] then
    local first, length, at, prior = match(known[id] or '', '^(%d*) ?(%d*)(@?)(%d*)$')
    first = tonumber(first)
    spans[id] = {
      first = first,
      ended = first and tonumber(length) and first + length,
      prior = tonumber(prior) or at == '@' and first or nil,
    }
  end
  return spans[id]
end
local function knownText(record)
  local text = record.first and int(record.first) or ''
  if record.first and record.ended then text = text .. ' ' .. int(record.ended - record.first) end
  if record.prior then text = text .. '@' end
  if record.prior and record.prior ~= record.first then text = text .. int(record.prior) end
  return text ~= '' and text
end
-- The position of the first event of a lease that can be seen. Of most that are live, they themselves tell.
local function firstOf(id)
  return knownOf(id).first or tonumber(match(live[id] or '', '^%d+ %d+ %d+ %d+ (%d+)'))
end
local function isInLedger(id, position)
  local first = firstOf(id)
  return first ~= nil and first <= position
end
-- Of an event the id of its lease, the version of the entry that it ended, and its type. Numbers stand before the record.
local function wordsOf(event)
  return match(event, '^(%S+) .-(%d+) %["(%a+)"')
end
local function eventAt(position)
  if appended[position] then return appended[position] end
  local row = call('XREVRANGE', P .. 'ledger', position, '-', 'COUNT', 1)[1]
  if not row then return nil end
  local distance = int(position - match(row[1], '^%d+'))
  for n = 1, #row[2], 2 do
    if row[2][n] == distance then return row[2][n + 1] end
  end
end
local function show(answer, ids)
  for _, id in ipairs(ids) do
    local ended = not live[id] and knownOf(id).ended
    local text = live[id] or ended and eventAt(ended)
    if text then answer[#answer + 1] = { id, ended or 0, text } end
  end
  return answer
end
`

type ScriptKind = 'writes' | 'reads' | 'deletes'

/**
 * The first line lets the server refuse a script as a whole when it is out of memory or may not write; without it the
 * script would begin, and fail at its first write. A script that only reads says so, and then runs on a server that is
 * out of memory and on a read-only replica; one that makes room runs on a server that is out of memory.
 */
const FIRST_LINES: Readonly<Record<ScriptKind, string>> = {
  writes: '#!lua',
  reads: '#!lua flags=no-writes',
  deletes: '#!lua flags=allow-oom',
}

/** What works in a bucket; `RedisNamespace.run` gives it the identity of the namespace and the clock. */
export interface Script {
  readonly text: string
  readonly effect: CommandEffect
}

export function scriptOf(kind: ScriptKind, text: string): Script {
  const effect = kind === 'reads' ? 'reads' : 'writes'
  return { text: `${FIRST_LINES[kind]}${COMMON}${LEDGER}${text}`, effect }
}

/** What every script does first that works in a bucket of the namespace. */
export const LOAD_STATE: string = `
state = readState(live.state)
if not state or state.identity ~= identity then return '${ANOTHER}' end
`
