/**
 * The scripts besides the one that commits: making a bucket, configuration, reading, retention. redis-layout.ts says what
 * is where. Each looks at a bounded number of things, so that no other
 * call waits long behind it.
 */
import { STORE_CLOCK_BEHIND_US_MAX } from '../../core/limits.ts'
import { PLACES } from './redis-commit-script.ts'
import {
  DAY_MS,
  EVENTS_PER_ROW,
  FORMER_LAYOUT_VERSION,
  LOAD_STATE,
  LAYOUT_VERSION,
  scriptOf,
  type Script,
} from './redis-layout.ts'

/** KEYS[1] is the key of the namespace's own facts. ARGV: layout, buckets, incarnation to begin with. Answers with those that hold. */
export const MAKE_NAMESPACE_SCRIPT = `#!lua
if redis.call('HEXISTS', KEYS[1], 'version') == 0 then
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'buckets', ARGV[2], 'incarnation', ARGV[3])
end
redis.call('HSETNX', KEYS[1], 'incarnation', ARGV[3])
return redis.call('HMGET', KEYS[1], 'version', 'buckets', 'incarnation', 'conversion')
`

/**
 * Makes a bucket part of the namespace. One that has lost nothing while the facts of the namespace were lost is taken
 * over, and so is one of the layout before; one of another layout or number of buckets is not. ARGV: its state if it has
 * none; its fences then begin at the present time, because a process that decides at an earlier one would give lower fences
 * than were given before all was lost. Answers with the identity that holds.
 */
export const MAKE_BUCKET_SCRIPT: Script = scriptOf(
  'writes',
  `
local function canJoin(other)
  local layout, buckets = match(other, '^(%d+)/(%d+)/')
  local isReadable = layout == '${LAYOUT_VERSION}' or layout == '${FORMER_LAYOUT_VERSION}'
  return isReadable and buckets == match(identity, '^%d+/(%d+)/')
end
state = readState(live.state)
if not state then
  call('SET', P .. 'e', 'layout ${LAYOUT_VERSION}')
  state = readState(ARGV[1])
  state.floor = clock() - 1
  call('HSET', P .. 'live', 'state', stateText())
elseif canJoin(state.identity) then
  state.identity = identity
  call('HSET', P .. 'live', 'state', stateText())
else
  return state.identity
end
return identity
`,
)

/** ARGV: field, and its value unless it is to be removed. */
export const CONFIGURE_SCRIPT: Script = scriptOf(
  'writes',
  `${LOAD_STATE}
if ARGV[2] == nil then
  call('HDEL', P .. 'settings', ARGV[1])
else
  call('HSET', P .. 'settings', ARGV[1], ARGV[2])
end
state.revision = math.max(state.revision + 1, clock())
call('HSET', P .. 'live', 'state', stateText())
return 1
`,
)

/** Puts the settings of one bucket into another. ARGV: revision, then fields and values. */
export const COPY_SETTINGS_SCRIPT: Script = scriptOf(
  'writes',
  `${LOAD_STATE}
if state.revision >= tonumber(ARGV[1]) then return 0 end
call('DEL', P .. 'settings')
for n = 2, #ARGV, 2 do call('HSET', P .. 'settings', ARGV[n], ARGV[n + 1]) end
state.revision = tonumber(ARGV[1])
call('HSET', P .. 'live', 'state', stateText())
return 1
`,
)

/**
 * Entries by what lists them. ARGV: how to look, and what that needs. Answers with the clock, where to go
 * on ('' at the end), then of each entry its id, the position of its end (0 for a live one) and its text, or that of the
 * event that ended it.
 *
 *     ids ID…              those that are named, live or ended
 *     members KEY MOST     a set, unless it has more
 *     live MOST            all that is live, unless it is more
 *     due MOST             what is live and whose deadline has passed
 *     claims PLACE         what is live at a place, which is JSON
 *     overlapping PLACE    the same; goes on after so many milliseconds if the clock is too far behind the last commit
 *     unrecorded FROM COUNT   those without an event in the ledger, by creation
 */
export const LOOK_SCRIPT: Script = scriptOf(
  'reads',
  `${LOAD_STATE}${PLACES}
local given = clock()
local now = math.max(given, state.high)
local answer = { now, '' }
local how, ids = ARGV[1], {}
if how == 'ids' then
  for n = 2, #ARGV do ids[n - 1] = ARGV[n] end
elseif how == 'members' then
  if call('SCARD', P .. ARGV[2]) > tonumber(ARGV[3]) then
    answer[2] = 'more'
  else
    ids = call('SMEMBERS', P .. ARGV[2])
  end
elseif how == 'live' then
  if call('ZCARD', P .. 'due') > tonumber(ARGV[2]) then
    answer[2] = 'more'
  else
    ids = call('ZRANGE', P .. 'due', 0, -1)
  end
elseif how == 'due' then
  ids = call('ZRANGEBYSCORE', P .. 'due', '-inf', now, 'LIMIT', 0, ARGV[2])
elseif how == 'claims' or how == 'overlapping' then
  if how == 'overlapping' and state.high - given > ${STORE_CLOCK_BEHIND_US_MAX} then
    answer[2] = int(math.ceil((state.high - given) / 1000))
  end
  for id in string.gmatch(claimsAt(cjson.decode(ARGV[2])), CLAIM) do ids[#ids + 1] = id end
else
  local found = call('ZRANGEBYSCORE', P .. 'unrecorded', '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  if #ids == tonumber(ARGV[3]) then answer[2] = found[#found] end
end
fetch('live', ids, live)
return show(answer, ids)
`,
)

/**
 * Goes through the ledger. ARGV: command, the lowest and the highest position of a row, how many rows, what is wanted, a lease
 * id or '', a text that an event must contain or ''. Answers with the last row looked at ('' at the end), then for each, as wanted:
 *
 *     events    lease id, position, text: of the events that can still be seen
 *     ended     the same, of those that ended what has ended
 *     born      lease id, 0, text of the entry: of what is live and of whose beginning the ledger tells
 *     rows      row, position (negative if it cannot be seen any more), text: of all
 */
export const WALK_SCRIPT: Script = scriptOf(
  'reads',
  `${LOAD_STATE}
local low, high, wanted, leaseId, part = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5], ARGV[6], ARGV[7]
if leaseId ~= '' then
  -- Nothing of a lease lies before the row of its first event, or behind that of its end.
  local first, ended = firstOf(leaseId), knownOf(leaseId).ended
  if not first then return { '' } end
  low, high = math.max(low, first + 1 - ${EVENTS_PER_ROW}), math.min(high, ended or high)
end
local from, to = int(low), int(high)
if ARGV[1] ~= 'XRANGE' then from, to = to, from end
local rows = call(ARGV[1], P .. 'ledger', from, to, 'COUNT', ARGV[4])
local answer, ids, seen, found = { #rows == tonumber(ARGV[4]) and rows[#rows][1] or '' }, {}, {}, {}
local function note(row, distance, text)
  local id = match(text, '^%S+')
  if (leaseId ~= '' and id ~= leaseId) or (part ~= '' and not find(text, part, 1, true)) then return end
  found[#found + 1] = { id = id, row = row, position = match(row, '^%d+') + distance, text = text }
  if not seen[id] then ids[#ids + 1] = id end
  seen[id] = true
end
for _, row in ipairs(rows) do
  local first, last, step = 1, #row[2] - 1, 2
  if ARGV[1] ~= 'XRANGE' then first, last, step = last, first, -2 end
  for n = first, last, step do note(row[1], row[2][n], row[2][n + 1]) end
end
fetch('known', ids, known)
fetch('live', ids, live)
local function tell(name, position, text) answer[#answer + 1] = { name, position, text } end
for _, event in ipairs(found) do
  if wanted == 'rows' then
    tell(event.row, isInLedger(event.id, event.position) and event.position or -event.position, event.text)
  elseif wanted == 'born' then
    local created = tonumber(match(live[event.id] or '', '^%d+ %d+ %d+ %d+ (%d+)'))
    if created == event.position then tell(event.id, 0, live[event.id]) end
  elseif wanted == 'ended' then
    if knownOf(event.id).ended == event.position then tell(event.id, event.position, event.text) end
  elseif isInLedger(event.id, event.position) then
    tell(event.id, event.position, event.text)
  end
end
return answer
`,
)

/**
 * Removes what may go. ARGV: JSON of `ended` and `requests`, each with id and position, of which the ledger is to tell no more,
 * and of `rows` of the ledger. Answers with how many ended entries were forgotten.
 */
export const PRUNE_SCRIPT: Script = scriptOf(
  'deletes',
  `${LOAD_STATE}
local gone, entries, changed = cjson.decode(ARGV[1]), 0, {}
for _, at in ipairs(gone.ended) do
  local record = knownOf(at.id)
  if record.ended == at.position then
    record.first, record.ended = nil, nil
    entries = entries + 1
    changed[at.id] = knownText(record)
    live.pruned = int(math.max(live.pruned or 0, at.position))
  end
end
for _, at in ipairs(gone.requests) do
  local record = knownOf(at.id)
  if record.prior == at.position then
    record.prior = nil
    changed[at.id] = knownText(record)
  end
end
writeAll('hash', 'known', changed)
send('XDEL', 'ledger', gone.rows)
if entries > 0 then call('HSET', P .. 'live', 'pruned', live.pruned) end
return entries
`,
)

const REMOVE_REFUSALS = `
local function removeRefusals(keys)
  send('ZREM', 'refused', keys)
  send('HDEL', 'refusals', keys)
end
`

/** Counts refusals. ARGV: how many rows there may be; then for each its key, how often, and the last of them as in a row. */
export const COUNT_REFUSALS_SCRIPT: Script = scriptOf(
  'writes',
  `${LOAD_STATE}${REMOVE_REFUSALS}
for n = 2, #ARGV, 3 do
  local key, last = ARGV[n], ARGV[n + 2]
  local count, kept = match(call('HGET', P .. 'refusals', key) or '0 0', '^(%d+) (.*)$')
  local lastAt, keptAt = tonumber(match(last, '^%d+')), tonumber(match(kept, '^%d+'))
  if lastAt < keptAt then last, lastAt = kept, keptAt end
  call('HSET', P .. 'refusals', key, int(count + ARGV[n + 1]) .. ' ' .. last)
  call('ZADD', P .. 'refused', int(lastAt), key)
end
removeRefusals(call('ZRANGE', P .. 'refused', 0, -1 - ARGV[1]))
return 1
`,
)

/** Refusals by time. ARGV: command, from which to which time, how many to pass over, how many. Answers with keys and rows. */
export const REFUSALS_SCRIPT: Script = scriptOf(
  'reads',
  `${LOAD_STATE}
local keys = call(ARGV[1], P .. 'refused', ARGV[2], ARGV[3], 'LIMIT', ARGV[4], ARGV[5])
local rows, answer = {}, {}
fetch('refusals', keys, rows)
for n, key in ipairs(keys) do answer[n] = { key, rows[key] } end
return answer
`,
)

/**
 * Notes how far the bucket was pruned, and forgets refusals that were the last of their kind before a time. ARGV: a text, the
 * time. Also on a server that is out of memory. The text does not expire: a clock that is far ahead once would take it away
 * at the very moment at which it says how far that clock is to be believed.
 */
export const NOTE_PRUNED_SCRIPT: Script = scriptOf(
  'deletes',
  `${LOAD_STATE}${REMOVE_REFUSALS}
call('SET', P .. 'pruned', ARGV[1])
removeRefusals(call('ZRANGEBYSCORE', P .. 'refused', '-inf', '(' .. ARGV[2]))
return 1
`,
)

/**
 * Forgets realms where nothing is live and whose last fence and last wall time are more than a day behind the clock. Their
 * highest fence stays behind as the floor of all. ARGV: cursor, how many. Answers with the next cursor.
 */
export const TIDY_SCRIPT: Script = scriptOf(
  'deletes',
  `${LOAD_STATE}
local before = clock() - ${DAY_MS * 1000}
local scan = call('HSCAN', P .. 'live', ARGV[1], 'COUNT', ARGV[2])
local gone = {}
for n = 1, #scan[2], 2 do
  local wall, fence = match(scan[2][n + 1], '^(%d+) (%d+) 0 $')
  if wall and find(scan[2][n], ':', 1, true) and wall * 1000 < before and tonumber(fence) < before then
    gone[#gone + 1] = scan[2][n]
    state.floor = math.max(state.floor, tonumber(fence))
  end
end
if #gone > 0 then
  call('HSET', P .. 'live', 'state', stateText())
  send('HDEL', 'live', gone)
end
return scan[1]
`,
)

/**
 * Lets the clock go on from where it is now, although something was committed at a later time. Answers
 * with how many milliseconds later that was.
 */
export const ACCEPT_CLOCK_SCRIPT: Script = scriptOf(
  'writes',
  `${LOAD_STATE}
local now = clock()
local lag = state.high - now
if lag <= 0 then return 0 end
state.high = now
call('HSET', P .. 'live', 'state', stateText())
return math.ceil(lag / 1000)
`,
)
