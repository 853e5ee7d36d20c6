/**
 * The scripts besides that of the attempts: configuration, reading, retention. The keys are described with that one
 * (redis-attempt-script.ts). Each looks at a bounded number of things, so that nobody waits long behind it, and those
 * that only read say so.
 */
import {
  CREATED_WIDTH,
  DAY_MS,
  HEAD_JSON_AT,
  PLAIN,
  READING,
  STATE_FIELD,
  STATE_REVISION_AT,
  TIDY,
  WRITING,
} from './redis-script-preamble.ts'

/** ARGV: clock or '', field, and its value unless it is to be removed. */
export const CONFIGURE_SCRIPT: string = `${WRITING}${PLAIN}
local now = clock(A[1])
local b = call('HGET', P .. 'e', '${STATE_FIELD}') or STATE
if A[3] == nil then
  call('HDEL', P .. 'g', A[2])
else
  call('HSET', P .. 'g', A[2], A[3])
end
call('HSET', P .. 'e', '${STATE_FIELD}', sub(b, 1, ${STATE_REVISION_AT}) .. int(math.max(tonumber(sub(b, ${STATE_REVISION_AT + 1})) + 1, now)))
return 1
`

/** Puts the settings of one bucket into another. ARGV: revision, then fields and values. */
export const COPY_SETTINGS_SCRIPT: string = `${WRITING}${PLAIN}
local b = call('HGET', P .. 'e', '${STATE_FIELD}') or STATE
if tonumber(sub(b, ${STATE_REVISION_AT + 1})) >= tonumber(A[1]) then return 0 end
call('DEL', P .. 'g')
for n = 2, #A, 2 do call('HSET', P .. 'g', A[n], A[n + 1]) end
call('HSET', P .. 'e', '${STATE_FIELD}', sub(b, 1, ${STATE_REVISION_AT}) .. A[1])
return 1
`

/** Adds entries to an answer: the id, head and body of each that is there. */
const SHOW = `
local function show(answer, ids)
  for first = 1, #ids, 4000 do
    local last = math.min(first + 3999, #ids)
    local heads = call('HMGET', P .. 'e', unpack(ids, first, last))
    local bodies = call('HMGET', P .. 'j', unpack(ids, first, last))
    for n = 1, #heads do
      if heads[n] then
        answer[#answer + 1] = ids[first + n - 1]
        answer[#answer + 1] = heads[n]
        answer[#answer + 1] = bodies[n]
      end
    end
  end
  return answer
end
`

/**
 * Entries by what lists them. ARGV: clock or '', how to look, and what that needs. Answers with the clock, where to go
 * on ('' at the end), then ids, heads and bodies.
 *
 *     ids                     the entries that are named
 *     members key most        a set, unless it has more
 *     live most               live entries, unless there are more
 *     ended beforeMs from count
 *     claims key field from   a list of claims
 *     born from count         those of whose creation the ledger tells, in that order; of so many entries of the stream
 *     unlisted from count     those of whom the ledger does not tell, by creation
 */
export const LOOK_SCRIPT: string = `${READING}${PLAIN}${SHOW}
local now = clock(A[1])
local b = call('HGET', P .. 'e', '${STATE_FIELD}') or STATE
local answer = { int(math.max(now, tonumber(sub(b, 17, 32)))), '' }
local how, ids = A[2], {}
if how == 'ids' then
  for n = 3, #A do ids[n - 2] = A[n] end
elseif how == 'members' then
  if call('SCARD', P .. A[3]) > tonumber(A[4]) then
    answer[2] = 'more'
  else
    ids = call('SMEMBERS', P .. A[3])
  end
elseif how == 'live' then
  ids = call('ZRANGEBYSCORE', P .. 'd', 1, '+inf', 'LIMIT', 0, A[3] + 1)
  if #ids > tonumber(A[3]) then
    answer[2], ids = 'more', {}
  end
elseif how == 'ended' then
  ids = call('ZREVRANGEBYSCORE', P .. 'd', '(0', '-' .. A[3], 'LIMIT', A[4], A[5])
  if #ids == tonumber(A[5]) then answer[2] = int(A[4] + #ids) end
elseif how == 'claims' then
  local claims = sub(call('HGET', P .. A[3], A[4]) or '', A[5])
  for from = 1, #claims, 47 do ids[#ids + 1] = sub(claims, from, from + 35) end
elseif how == 'born' then
  local rows = call('XRANGE', P .. 'l', A[3], '+', 'COUNT', A[4])
  for _, row in ipairs(rows) do
    local place = tonumber(string.match(row[1], '^%d+'))
    for n, event in ipairs(row[2]) do
      if sub(event, 37, 37) == 'c' then
        local id = sub(event, 1, 36)
        local head = call('HGET', P .. 'e', id)
        if head and tonumber(sub(head, -16)) < place + n - 1 then ids[#ids + 1] = id end
      end
    end
  end
  if #rows == tonumber(A[4]) then answer[2] = '(' .. rows[#rows][1] end
else
  local found = call('ZRANGEBYSCORE', P .. 'i', '(' .. A[3], '+inf', 'WITHSCORES', 'LIMIT', 0, A[4])
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  if #ids == tonumber(A[4]) then answer[2] = found[#found] end
end
return show(answer, ids)
`

/**
 * Events that can still be seen. ARGV: command, first and last entry of the stream, how many, lease id or ''. Answers
 * with the last entry looked at ('' at the end), then positions, events and the bodies that belong to them or ''.
 */
export const LEDGER_SCRIPT: string = `${READING}${PLAIN}
local rows = call(A[1], P .. 'l', A[2], A[3], 'COUNT', A[4])
local answer, since = { '' }, {}
local function tell(place, event)
  local id = sub(event, 1, 36)
  if event == '' or (A[5] ~= '' and A[5] ~= id) then return end
  if since[id] == nil then
    local head = call('HGET', P .. 'e', id)
    since[id] = head and tonumber(sub(head, -16)) or false
  end
  if not since[id] or since[id] >= place then return end
  local hasBody = sub(event, 39, 39) == 'b'
  local body = hasBody and (call('HGET', P .. 'k', id) or call('HGET', P .. 'j', id)) or ''
  answer[#answer + 1] = int(place)
  answer[#answer + 1] = event
  answer[#answer + 1] = body
end
for _, row in ipairs(rows) do
  local place, events = tonumber(string.match(row[1], '^%d+')), row[2]
  if A[1] == 'XRANGE' then
    for n = 1, #events do tell(place + n - 1, events[n]) end
  else
    for n = #events, 1, -1 do tell(place + n - 1, events[n]) end
  end
end
if #rows == tonumber(A[4]) then answer[1] = rows[#rows][1] end
return answer
`

/**
 * Live entries whose deadline has passed. ARGV: clock or '', how many. Answers with the clock, the entries that renewals
 * have moved on since they were listed, then ids, heads and bodies of those that are due.
 */
export const DUE_SCRIPT: string = `${READING}${PLAIN}${SHOW}
local b = call('HGET', P .. 'e', '${STATE_FIELD}') or STATE
local now = math.max(clock(A[1]), tonumber(sub(b, 17, 32)))
local most, ids, moved = tonumber(A[2]), {}, {}
for from = 0, 19 * most, most do
  local found = call('ZRANGEBYSCORE', P .. 'd', 1, int(now), 'LIMIT', from, most)
  for _, id in ipairs(found) do
    local head = call('HGET', P .. 'e', id)
    if head and tonumber(sub(head, 39, 54)) <= now then
      if #ids < most then ids[#ids + 1] = id end
    else
      moved[#moved + 1] = id
    end
  end
  if #found < most or #ids == most then break end
end
return show({ int(now), moved }, ids)
`

/** Lists entries where they belong. ARGV: their ids. */
export const RELIST_SCRIPT: string = `${WRITING}${PLAIN}
for _, id in ipairs(A) do
  local head = call('HGET', P .. 'e', id)
  local live = head and sub(head, 39, 54)
  if not head then
    call('ZREM', P .. 'd', id)
  elseif tonumber(live) > 0 then
    call('ZADD', P .. 'd', live, id)
  end
end
return #A
`

/** Forgets ended entries. ARGV: for each its id and version. Answers with how many. */
export const FORGET_SCRIPT: string = `${WRITING}${PLAIN}
local entries = 0
for at = 1, #A, 2 do
  local id = A[at]
  local head = call('HGET', P .. 'e', id)
  if head and sub(head, 1, 11) == A[at + 1] and tonumber(sub(head, 39, 54)) == 0 then
    entries = entries + 1
    for _, key in ipairs({ 'e', 'j', 'k' }) do call('HDEL', P .. key, id) end
    call('ZREM', P .. 'd', id)
  end
end
return entries
`

/**
 * Takes from the old part of the ledger what nobody can see any more, and renewals and advances of an epoch that a later
 * one has superseded. An entry of the stream goes when all of its events may.
 *
 * ARGV: first position, position to stop at, before which wall time renewals are old, before which those that a request
 * asked for are, how many, the wall time. Answers with the next position, or '' at the end, and how many events were
 * taken.
 */
export const TRIM_SCRIPT: string = `${WRITING}${PLAIN}
local rows = call('XRANGE', P .. 'l', A[1], A[2], 'COUNT', A[5])
local gone, events, heads, epochs = {}, 0, {}, {}
local old, requested = tonumber(A[3]), tonumber(A[4])
local function isSuperseded(id, head, event)
  local at = tonumber(sub(event, 40, 52))
  local ttl = cjson.decode(sub(head, ${HEAD_JSON_AT + 1}, -${CREATED_WIDTH + 1}))[2]
  if at >= old or at + ttl >= tonumber(A[6]) then return false end
  epochs[id] = epochs[id] or cjson.decode(call('HGET', P .. 'j', id))[22] or 0
  return epochs[id] > tonumber(string.match(event, ',(%d+)%]$'))
end
local function isGone(place, event)
  local id = sub(event, 1, 36)
  local head = heads[id]
  if head == nil then
    head = call('HGET', P .. 'e', id)
    heads[id] = head
  end
  if not head or tonumber(sub(head, -16)) >= place then return true end
  local mark = sub(event, 37, 37)
  if mark == 'a' then return isSuperseded(id, head, event) end
  if mark ~= 'r' then return false end
  local before = sub(event, 53, 54) == '--' and old or requested
  return tonumber(sub(event, 40, 52)) < before
    and tonumber(sub(head, 55, 64)) > tonumber(string.match(event, '%[(%d+)'))
end
for _, row in ipairs(rows) do
  local place, taken, isKept = tonumber(string.match(row[1], '^%d+')), 0, false
  for n, event in ipairs(row[2]) do
    if event ~= '' then
      if not isGone(place + n - 1, event) then
        isKept = true
        break
      end
      taken = taken + 1
    end
  end
  if not isKept then
    gone[#gone + 1] = row[1]
    events = events + taken
  end
end
if #gone > 0 then call('XDEL', P .. 'l', unpack(gone)) end
if #rows < tonumber(A[5]) then return { '', events } end
return { '(' .. rows[#rows][1], events }
`

/** Forgets realms that have been idle for long. ARGV: clock or '', how many to look at. Answers with 1 if there are more. */
export const TIDY_SCRIPT: string = `${WRITING}${PLAIN}
local now, most = clock(A[1]), tonumber(A[2])
local b = call('HGET', P .. 'e', '${STATE_FIELD}') or STATE
local day, idleDay = math.floor(now / ${DAY_MS * 1000}), tonumber(sub(b, 43, 52))
if idleDay == 0 or idleDay >= day - 1 then return 0 end
${TIDY}
call('HSET', P .. 'e', '${STATE_FIELD}', sub(b, 1, 42) .. string.format('%010d', idleDay) .. sub(b, 53))
return idleDay < day - 1 and 1 or 0
`
