/**
 * The scripts besides that of the attempts: configuration, reading, retention. The keys are described with that one
 * (redis-attempt-script.ts). Each looks at a bounded number of things, so that nobody waits long behind it.
 */
import { PREAMBLE } from './redis-script-preamble.ts'

/** ARGV: clock or '', field, and its value unless it is to be removed. */
export const CONFIGURE_SCRIPT: string = `${PREAMBLE}
local now = clock(ARGV[1])
local last, high, revision = state(call('GET', prefix .. 'b'))
if ARGV[3] == nil then
  call('HDEL', prefix .. 'g', ARGV[2])
else
  call('HSET', prefix .. 'g', ARGV[2], ARGV[3])
end
local raised = int(math.max(tonumber(revision) + 1, now))
call('SET', prefix .. 'b', int(last) .. ' ' .. int(high) .. ' ' .. raised)
return 1
`

/** Puts the settings of one bucket into another. ARGV: revision, then fields and values. */
export const COPY_SETTINGS_SCRIPT: string = `${PREAMBLE}
local last, high, revision = state(call('GET', prefix .. 'b'))
if tonumber(revision) >= tonumber(ARGV[1]) then return 0 end
call('DEL', prefix .. 'g')
for n = 2, #ARGV, 2 do call('HSET', prefix .. 'g', ARGV[n], ARGV[n + 1]) end
call('SET', prefix .. 'b', int(last) .. ' ' .. int(high) .. ' ' .. ARGV[1])
return 1
`

/**
 * Entries by the key that lists them. ARGV: clock or '', how to look, key, and what that needs. Answers with the
 * clock, where to go on ('' at the end), then ids, records and when each was created.
 *
 *     ids                          the entries named by ARGV[4] and all that follow
 *     created KEY after count      a sorted set by creation
 *     scored KEY below from count  a sorted set by another score
 *     list KEY from count          a list
 *     claims KEY                   a list of claims
 */
export const LOOK_SCRIPT: string = `${PREAMBLE}
local now = clock(ARGV[1])
local last, high = state(call('GET', prefix .. 'b'))
local answer = { int(math.max(now, high)), '' }
local how, key, ids = ARGV[2], prefix .. ARGV[3], {}
if how == 'ids' then
  for n = 4, #ARGV do ids[#ids + 1] = ARGV[n] end
elseif how == 'created' then
  local found = call('ZRANGEBYSCORE', key, '(' .. ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[5])
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  if #ids == tonumber(ARGV[5]) then answer[2] = found[#found] end
elseif how == 'scored' then
  ids = call('ZRANGEBYSCORE', key, '-inf', ARGV[4], 'LIMIT', ARGV[5], ARGV[6])
  if #ids == tonumber(ARGV[6]) then answer[2] = int(ARGV[5] + #ids) end
elseif how == 'list' then
  ids = call('LRANGE', key, ARGV[4], ARGV[4] + ARGV[5] - 1)
  if #ids == tonumber(ARGV[5]) then answer[2] = int(ARGV[4] + #ids) end
else
  for id in string.gmatch(call('GET', key) or '', '(%S+) %S+ ') do ids[#ids + 1] = id end
end
for _, id in ipairs(ids) do
  local record = call('GET', prefix .. 'e:' .. id)
  if record then
    answer[#answer + 1] = id
    answer[#answer + 1] = record
    answer[#answer + 1] = created(id)
  end
end
return answer
`

/**
 * Events that can still be seen. ARGV: command, first and last position, how many to look at, lease id or ''. Answers
 * with the last position looked at ('' at the end), then positions and events.
 */
export const LEDGER_SCRIPT: string = `${PREAMBLE}
local rows = call(ARGV[1], prefix .. 'l', ARGV[2], ARGV[3], 'COUNT', ARGV[4])
local answer, since = { '' }, {}
for _, row in ipairs(rows) do
  local place, text = match(row[1], '^%d+'), row[2][2]
  local id = match(text, '^%S+')
  if ARGV[5] == '' or ARGV[5] == id then
    if since[id] == nil then since[id] = tonumber(created(id)) or false end
    if since[id] and since[id] < tonumber(place) then
      answer[#answer + 1] = place
      answer[#answer + 1] = text
    end
  end
end
if #rows == tonumber(ARGV[4]) then answer[1] = match(rows[#rows][1], '^%d+') end
return answer
`

/**
 * Live entries whose deadline has passed. The index may name a tick that a renewal has moved since; such an entry is
 * put where it belongs. ARGV: clock or '', how many. Answers with the clock, then ids, records and when
 * each was created.
 */
export const DUE_SCRIPT: string = `${PREAMBLE}
local now = clock(ARGV[1])
local last, high = state(call('GET', prefix .. 'b'))
now = math.max(now, high)
local answer, most = { int(now) }, tonumber(ARGV[2])
local from = 0
while #answer <= 3 * most and from < 20 * most do
  local ids = call('ZRANGEBYSCORE', prefix .. 'd', '-inf', int(now), 'LIMIT', from, most)
  if #ids == 0 then break end
  for _, id in ipairs(ids) do
    local record = call('GET', prefix .. 'e:' .. id)
    local live = record and match(record, '^%S+ %S+ %S+ (%d+)') or '0'
    if live == '0' then
      call('ZREM', prefix .. 'd', id)
    elseif tonumber(live) > now then
      call('ZADD', prefix .. 'd', live, id)
    else
      from = from + 1
      answer[#answer + 1] = id
      answer[#answer + 1] = record
      answer[#answer + 1] = created(id)
    end
  end
end
return answer
`

/**
 * Forgets ended entries. ARGV: for each its id, version, resource, holder and session. Answers with how many.
 */
export const FORGET_SCRIPT: string = `${PREAMBLE}
local entries = 0
for at = 1, #ARGV, 5 do
  local id, version, resource = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local record = call('GET', prefix .. 'e:' .. id)
  local kept, live = match(record or '', '^(%d+) %d+ %d+ (%d+)')
  if kept == version and live == '0' then
    entries = entries + 1
    call('DEL', prefix .. 'e:' .. id)
    call('ZREM', prefix .. 'i', id)
    call('ZREM', prefix .. 'x', id)
    call('ZREM', prefix .. 'h:' .. ARGV[at + 3], id)
    call('ZREM', prefix .. 's:' .. ARGV[at + 4], id)
    call('LREM', prefix .. 'n:' .. resource, 1, id)
  end
end
return entries
`

/**
 * Takes from the old part of the ledger what nobody can see any more, and renewals and advances of an epoch that a later
 * one has superseded. ARGV: first position, position to stop at, before which wall time renewals are old, before which
 * those that a request asked for are, how many, the wall time. Answers with the next position, or '' at the end, and how
 * many were taken.
 */
export const TRIM_SCRIPT: string = `${PREAMBLE}
local rows = call('XRANGE', prefix .. 'l', ARGV[1], ARGV[2], 'COUNT', ARGV[5])
local gone = {}
for _, row in ipairs(rows) do
  local place = tonumber(match(row[1], '^%d+'))
  local id, number, mark, at, request, renewals =
    match(row[2][2], '^(%S+) (%d+) (%a) (%d+) (%S+) (%d+)')
  local since = tonumber(created(id))
  if not since or since >= place then
    gone[#gone + 1] = row[1]
  elseif mark == 'r' and tonumber(at) < tonumber(request == '-' and ARGV[3] or ARGV[4]) then
    local record = call('GET', prefix .. 'e:' .. id)
    local latest = match(record or '', '^%d+ %d+ %d+ %d+ %d+ (%d+)')
    if latest and tonumber(latest) > tonumber(renewals) then gone[#gone + 1] = row[1] end
  elseif mark == 'a' and tonumber(at) < tonumber(ARGV[3]) then
    local record = call('GET', prefix .. 'e:' .. id)
    local ttl, fields = match(record or '', '^%d+ %d+ %d+ %d+ (%d+) %d+ %S+ (.*)$')
    local over = ttl and at + ttl < tonumber(ARGV[6])
    if over and cjson.decode(fields)[29] > tonumber(number) then gone[#gone + 1] = row[1] end
  end
end
if #gone > 0 then inChunks('XDEL', prefix .. 'l', gone) end
if #rows < tonumber(ARGV[5]) then return { '', #gone } end
return { '(' .. rows[#rows][1], #gone }
`
