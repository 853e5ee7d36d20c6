/**
 * The script that carries out a group of attempts: it compares, stores and appends, and knows nothing about leases. All
 * names reach it as data; all keys begin with KEYS[1], whose hash tag puts them into one slot.
 *
 * Keys of a bucket, after its prefix (the widths of what is in them stand in redis-script-preamble.ts):
 *
 *     e            hash: by id the head of each entry, which holds all that renewals and endings change; by name the
 *                  realms, which have a colon in it; and the state of the bucket
 *     g            hash: the settings
 *     l            stream: the ledger; an entry holds up to 16 events, the first of them at its own position
 *     j            hash: body of each entry, as JSON
 *     k            hash: the first body of those entries that have got another since; events tell of that one
 *     c, u         hashes, of trees: the claims on a resource, and those of them that cover its subtree
 *     t            sorted set of the resources of trees that have live entries, by name
 *     o            hash: the epochs of resources of trees
 *     d            sorted set of entries: live ones by a tick not later than their deadline, ended ones by -(endedAtMs + 1)
 *     h:HOLDER, s:SESSION   sets of live entries
 *     i            sorted set of the entries of which the ledger does not tell, by creation
 *     q:DAY        hash: what the request ids of a day have done; Q:PERIOD for leases whose TTL is longer than a day
 *     y:DAY        set of the flat realms that were left without live entries on that day
 *     p            where the pruning of the ledger has got to
 *
 * Every attempt is checked before anything of it is noted, and everything is written at the end, one command for each
 * key: a command costs more than the work that it does, which is also why state, heads and realms share a key. Making a
 * string costs by its length, because Lua goes through each byte of it, so few are made, and few tables and functions.
 */
import { GENERAL } from './redis-general-script.ts'
import { PLAIN_ATTEMPT } from './redis-plain-script.ts'
import { RARE } from './redis-rare-script.ts'
import { DAY_MS, READING, STATE_FIELD, TIDY, WRITING } from './redis-script-preamble.ts'

/** A server clock further behind than this is not believed. */
const CLOCK_BEHIND_US_MAX = 5_000_000
/** A mark of this period is found in the next one too, so it is kept as long as the longest TTL. */
const PERIOD_DAYS = 31
/** Idle realms that each group looks at, when there are some from the day before yesterday. */
const TIDY_PER_GROUP = 20
/** Events in one entry of the stream. It can only be removed as a whole, so one that must stay keeps few others. */
export const EVENTS_PER_ROW = 16

/**
 * ARGV: a list of clock or '', revision, sender, four counts, times; fields of the hash `e`, the first of which is the
 * state; names, requests; attempts. `V` has the values of the fields, as the attempts so far have left them.
 */
const READ = `
local A = cmsgpack.unpack(ARGV[1])
local byte, find, format = string.byte, string.find, string.format
local E, NONE10 = P .. 'e', '0000000000'
local n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12 = byte(A[4], 1, 12)
local fields = 5
local names = fields + (n1 - 33) * 8100 + (n2 - 33) * 90 + n3 - 33
local requests = names + (n4 - 33) * 8100 + (n5 - 33) * 90 + n6 - 33
local at = requests + (n7 - 33) * 8100 + (n8 - 33) * 90 + n9 - 33
local attempts = (n10 - 33) * 8100 + (n11 - 33) * 90 + n12 - 33
local function fetch(key, from, to)
  if to - from <= 4000 then return call('HMGET', key, unpack(A, from + 1, to)) end
  local values = {}
  for first = from + 1, to, 4000 do
    local some = call('HMGET', key, unpack(A, first, math.min(first + 3999, to)))
    for n = 1, #some do values[first - from + n - 1] = some[n] end
  end
  return values
end
local V = fetch(E, fields, names)
local b = V[1] or STATE
local last, high, revision = tonumber(sub(b, 1, 16)), tonumber(sub(b, 17, 32)), sub(b, 63)
local now = tonumber(A[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local behind = high - now
if now <= high then now = high + 1 end
local nowText = format('%016d', now)
local isCurrent = revision == A[2]
local answer = { nowText, revision, false, 0, attempts }
local told = 5
if not isCurrent then answer[3] = call('HGETALL', P .. 'g') end
if behind > ${CLOCK_BEHIND_US_MAX} then
  answer[4] = format('%d', math.ceil(behind / 1000))
  return answer
end
local day = math.floor(now / ${DAY_MS * 1000})
local period = math.floor(day / ${PERIOD_DAYS})
local longSince, idleDay, markDay = sub(b, 33, 42), sub(b, 43, 52), sub(b, 53, 62)
local marked = {}
local today, yesterday, long, longer
if at > requests then
  today = fetch(P .. 'q:' .. day, requests, at)
  yesterday = fetch(P .. 'q:' .. day - 1, requests, at)
  if longSince ~= NONE10 and tonumber(longSince) >= period - 1 then
    long = fetch(P .. 'Q:' .. period, requests, at)
    longer = fetch(P .. 'Q:' .. period - 1, requests, at)
  end
end
`

/** What is to be written: lists of arguments, and how long they are. `dirty` has the numbers of fields that changed. */
const NOTES = `
local NONE11, NONE16 = '00000000000', '0000000000000000'
local NO_REALM = '${'0'.repeat(50)}'
local base = last >= now and last or now - 1
local created, isChanged = 0, false
local dirty, dirtyCount, touched = {}, 0, {}
local bodiesPut, datedCount, joinedCount, leftCount, dayMarksCount, idleCount, events = 0, 0, 0, 0, 0, 0, 0
local dated, ledger, dayMarks, idle = {}, {}, {}, {}
local putBodies, joined, joinedHolder, joinedSession, left, leftHolder, leftSession
local gone, longMarks, news, listed, unlisted
local trees, more, wantsMore
local groupFrom, groupBefore = tonumber(sub(A[5], 1, 16)), tonumber(sub(A[5], 17, 32))
local groupWall = sub(A[5], 33)
local groupHolds = attempts > 0 and isCurrent and now >= groupFrom and now < groupBefore
`

const FLUSH = `
if not isChanged then return answer end
local tidied
local function send(command, key, list)
  for first = 1, #list, 4000 do
    call(command, key, unpack(list, first, math.min(first + 3999, #list)))
  end
end
local function sendByName(command, key, list, numbers)
  local first, isOne = numbers[1], true
  for n = 2, #list do
    if numbers[n] ~= first then
      isOne = false
      break
    end
  end
  if isOne then return send(command, key .. A[names + first], list) end
  local byName = {}
  for n = 1, #list do
    local some = byName[numbers[n]]
    if some then some[#some + 1] = list[n] else byName[numbers[n]] = { list[n] } end
  end
  for name, some in pairs(byName) do send(command, key .. A[names + name], some) end
end
local dayText = format('%010d', day)
if idleCount > 0 and idleDay == NONE10 then idleDay = dayText end
if idleDay ~= NONE10 and idleDay < dayText and tonumber(idleDay) < day - 1 then
  local most, idleDayText = ${TIDY_PER_GROUP} + 2 * idleCount, idleDay
  local idleDay = tonumber(idleDayText)
${TIDY}
  tidied = format('%010d', idleDay)
end
if dayMarksCount > 0 then
  send('HSET', P .. 'q:' .. day, dayMarks)
  if markDay ~= dayText then
    call('PEXPIRE', P .. 'q:' .. day, ${3 * DAY_MS})
    markDay = dayText
  end
end
if longMarks then
  send('HSET', P .. 'Q:' .. period, longMarks)
  call('PEXPIRE', P .. 'Q:' .. period, ${3 * PERIOD_DAYS * DAY_MS})
  longSince = format('%010d', period)
end
local final = base + created + events
local state = (final == now and nowText or format('%016d', final)) .. nowText
  .. longSince .. (tidied or idleDay) .. markDay .. revision
local puts, count = { '${STATE_FIELD}', state }, 2
for n = 1, dirtyCount do
  local value = V[dirty[n]]
  if value then
    puts[count + 1], puts[count + 2] = A[fields + dirty[n]], value
    count = count + 2
  end
end
send('HSET', E, puts)
if bodiesPut > 0 then send('HSET', P .. 'j', putBodies) end
if datedCount > 0 then send('ZADD', P .. 'd', dated) end
if leftCount > 0 then
  sendByName('SREM', P .. 'h:', left, leftHolder)
  sendByName('SREM', P .. 's:', left, leftSession)
end
if joinedCount > 0 then
  sendByName('SADD', P .. 'h:', joined, joinedHolder)
  sendByName('SADD', P .. 's:', joined, joinedSession)
end
if events > 0 then
  ledger[events + 1] = events % 2 == 1 and '' or nil
  for first = 1, events, ${EVENTS_PER_ROW} do
    local place = base + created + first
    call('XADD', P .. 'l', place == now and nowText or format('%016d', place),
      unpack(ledger, first, math.min(first + ${EVENTS_PER_ROW - 1}, events + events % 2)))
  end
end
if idleCount > 0 then send('SADD', P .. 'y:' .. day, idle) end
if gone then
  send('HDEL', E, gone)
  send('HDEL', P .. 'j', gone)
  send('HDEL', P .. 'k', gone)
  send('ZREM', P .. 'd', gone)
end
if listed then send('ZADD', P .. 'i', listed) end
if unlisted then send('ZREM', P .. 'i', unlisted) end
if trees then trees.flush() end
if news then
  for n = 1, #news, 2 do call('PUBLISH', news[n], news[n + 1]) end
end
return answer
`

/** An attempt that turns out to need more than most is looked at again when there is more. */
const ATTEMPTS = `
local n = 0
while n < attempts do
  local x = at + 1
  local c = A[x]
  local isPlain = byte(c) == 112
  if wantsMore and not more then
${RARE}
  end
  n = n + 1
  if isPlain then
${PLAIN_ATTEMPT}
  else
${GENERAL}
  end
end
`

const SCRIPT = `${READ}${NOTES}${ATTEMPTS}${FLUSH}`

export const ATTEMPT_SCRIPT: string = `${WRITING}${SCRIPT}`
/** For attempts that can only miss: it runs wherever something can be read. */
export const VIEW_SCRIPT: string = `${READING}${SCRIPT}`
