/**
 * The script that carries out a group of attempts: it compares, stores and appends, and knows nothing about leases. All
 * names reach it as data; all keys begin with KEYS[1], whose hash tag puts them into one slot.
 *
 * Keys of a bucket, after its prefix (the widths of what is in them stand in redis-script-preamble.ts):
 *
 *     b            state of the bucket
 *     g            hash: the settings
 *     l            stream: the ledger; an entry holds up to 16 events, the first of them at its own position
 *     e            hash: head of each entry, which holds all that renewals and endings change
 *     j            hash: body of each entry, as JSON
 *     k            hash: the first body of those entries that have got another since; events tell of that one
 *     r            hash: realms
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
 * key: a command costs more than the work that it does. For the same reason there are few functions here, and no tables
 * for attempts; making them took three times as long as all commands together.
 */
import { RARE } from './redis-rare-script.ts'
import { DAY_MS, READING, TIDY, WRITING } from './redis-script-preamble.ts'

/** A server clock further behind than this is not believed. */
const CLOCK_BEHIND_US_MAX = 5_000_000
/** A mark of this period is found in the next one too, so it is kept as long as the longest TTL. */
const PERIOD_DAYS = 31
/** Idle realms that each group looks at, when there are some from the day before yesterday. */
const TIDY_PER_GROUP = 20
/** Events in one entry of the stream. It can only be removed as a whole, so one that must stay keeps few others. */
export const EVENTS_PER_ROW = 16

/** ARGV: clock or '', revision, sender, five counts, times; ids, realms, names, requests; attempts. */
const READ = `
local byte, find, format = string.byte, string.find, string.format
local b = call('GET', P .. 'b') or STATE
local last, high, revision = tonumber(sub(b, 1, 16)), tonumber(sub(b, 17, 32)), sub(b, 53)
local now = tonumber(A[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local behind = high - now
if now <= high then now = high + 1 end
local nowText = format('%016d', now)
local isCurrent = revision == A[2]
local answer = { nowText, revision, false, 0 }
if not isCurrent then answer[3] = call('HGETALL', P .. 'g') end
if behind > ${CLOCK_BEHIND_US_MAX} then
  answer[4] = format('%d', math.ceil(behind / 1000))
  return answer
end
local E, R, O = P .. 'e', P .. 'r', P .. 'o'
local n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15 = byte(A[4], 1, 15)
local ids = 5
local realmNames = ids + (n1 - 33) * 8100 + (n2 - 33) * 90 + n3 - 33
local names = realmNames + (n4 - 33) * 8100 + (n5 - 33) * 90 + n6 - 33
local requests = names + (n7 - 33) * 8100 + (n8 - 33) * 90 + n9 - 33
local at = requests + (n10 - 33) * 8100 + (n11 - 33) * 90 + n12 - 33
local attempts = (n13 - 33) * 8100 + (n14 - 33) * 90 + n15 - 33
local function fetch(key, from, to)
  if to == from then return {} end
  if to - from <= 4000 then return call('HMGET', key, unpack(A, from + 1, to)) end
  local values = {}
  for first = from + 1, to, 4000 do
    local some = call('HMGET', key, unpack(A, first, math.min(first + 3999, to)))
    for n = 1, #some do values[first - from + n - 1] = some[n] end
  end
  return values
end
local heads, realms = fetch(E, ids, realmNames), fetch(R, realmNames, names)
local day = math.floor(now / ${DAY_MS * 1000})
local period = math.floor(day / ${PERIOD_DAYS})
local longSince, idleDay = tonumber(sub(b, 33, 42)), tonumber(sub(b, 43, 52))
local marked = {}
local today, yesterday, long, longer
if at > requests then
  today = fetch(P .. 'q:' .. day, requests, at)
  yesterday = fetch(P .. 'q:' .. day - 1, requests, at)
  if longSince >= period - 1 and longSince > 0 then
    long = fetch(P .. 'Q:' .. period, requests, at)
    longer = fetch(P .. 'Q:' .. period - 1, requests, at)
  end
end
`

/** What is to be written: lists of arguments, and how long they are. */
const NOTES = `
local NONE11, NONE16 = '00000000000', '0000000000000000'
local NO_REALM = '${'0'.repeat(50)}'
local base = last >= now and last or now - 1
local created, isChanged = 0, false
local putHeads, headsPut, putBodies, bodiesPut, putRealms, realmsPut = {}, 0, {}, 0, {}, 0
local dated, datedCount, ledger, events = {}, 0, {}, 0
local joined, joinedHolder, joinedSession, joinedCount = {}, {}, {}, 0
local left, leftHolder, leftSession, leftCount = {}, {}, {}, 0
local gone, idle = {}, {}
local dayMarks, longMarks, news, listed, unlisted = {}, {}, {}, {}, {}
local trees, more
`

/**
 * An attempt is one argument that says all that has a width, and then what has none, in the same order. That one says:
 * times ('=' those of the group), fences ('-' none), counts of places, writes, events, marks, epochs, wakes and of its
 * own arguments [3 each]; fences[32]; times[45]; then
 *
 *     place   shape depth hasPrior, id realm request [3 each], own version[11], epoch[16]; claims if listed; resource
 *             unless flat
 *     write   mode shape hasBody live recorded tickets, id realm holder session before [3 each], version[11]; head,
 *             body if any, score unless it keeps its place, resource unless flat
 *     mark    request[3] isLong; text
 *     epoch   shape realm[3]; resource unless flat, epoch[16]
 *     wake    channel, lease
 */
const CHECK = `
for n = 1, attempts do
  local x = at + 1
  local c = A[x]
  local ownTimes, ownFences, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,
    a18, a19, a20, a21 = byte(c, 1, 23)
  local places = (a1 - 33) * 8100 + (a2 - 33) * 90 + a3 - 33
  local writes = (a4 - 33) * 8100 + (a5 - 33) * 90 + a6 - 33
  at = at + (a19 - 33) * 8100 + (a20 - 33) * 90 + a21 - 33
  local p, times, timesAt = 24, A[5], 1
  local firstFence, lastFence
  if ownFences == 102 then
    firstFence, lastFence = sub(c, p, p + 15), sub(c, p + 16, p + 31)
    p = p + 32
  end
  if ownTimes == 33 then
    times, timesAt = c, p
    p = p + 45
  end
  local wall = sub(times, timesAt + 32, timesAt + 44)
  local holds = isCurrent and now >= tonumber(sub(times, timesAt, timesAt + 15))
    and now < tonumber(sub(times, timesAt + 16, timesAt + 31))
  local placesAt, argumentsAt = p, x
  for m = 1, holds and places or 0 do
    local shape, depth, hasPrior, i1, i2, i3, r1, r2, r3, q1, q2, q3 = byte(c, p, p + 11)
    local head = heads[(i1 - 33) * 8100 + (i2 - 33) * 90 + i3 - 33]
    local realm = realms[(r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33] or NO_REALM
    local q = (q1 - 33) * 8100 + (q2 - 33) * 90 + q3 - 33
    local mark = q > 0 and (marked[q] or today[q] or yesterday[q] or (long and (long[q] or longer[q])))
    if mark then more = more or rare() end
    local claims
    if depth == 108 then
      x = x + 1
      claims = A[x]
    end
    if (head and sub(head, 1, 11) or NONE11) ~= sub(c, p + 12, p + 22)
      or sub(realm, 1, 13) > wall
      or ((mark and more.prior(q) ~= nil or false) ~= (hasPrior == 49))
    then
      holds = false
    elseif shape == 102 then
      if sub(realm, 30, 45) ~= sub(c, p + 23, p + 38) then
        holds = false
      elseif depth == 48 then
        holds = #realm == 50
      elseif claims and sub(realm, 51) ~= claims then
        more = more or rare()
        holds = more.isSame(claims, sub(realm, 51))
      end
    else
      x = x + 1
      more = more or rare()
      trees = trees or more.treesOf()
      holds = trees.epoch(A[x]) == sub(c, p + 23, p + 38)
        and (depth == 42 or more.isSame(claims or '', trees.claims(A[x], shape)))
    end
    if not holds then break end
    p = p + 39
  end
  local writesAt = placesAt + places * 39
  p = writesAt
  for m = 1, holds and writes or 0 do
    local i1, i2, i3 = byte(c, p + 6, p + 8)
    local head = heads[(i1 - 33) * 8100 + (i2 - 33) * 90 + i3 - 33]
    if (head and sub(head, 1, 11) or NONE11) ~= sub(c, p + 21, p + 31) then
      holds = false
      break
    end
    p = p + 32
  end
  if not holds then
    more = more or rare()
    answer[n + 4] = more.views(c, placesAt, argumentsAt, places)
  elseif writes == 0 then
    answer[n + 4] = 0
  else
`

/** Notes what an attempt writes, and lets the attempts after it see that. A fence is moved on where others had it. */
const APPLY = `
    isChanged = true
    local shift = 0
    if firstFence then
      local wanted = tonumber(firstFence)
      for m = 0, places - 1 do
        local r1, r2, r3 = byte(c, placesAt + m * 39 + 6, placesAt + m * 39 + 8)
        local realm = realms[(r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33]
        local taken = realm and tonumber(sub(realm, 14, 29)) or 0
        if taken >= wanted + shift then shift = taken + 1 - wanted end
      end
      if shift > 0 then more = more or rare() end
    end
    p = writesAt
    for m = 1, writes do
      local mode, shape, hasBody, live, recorded, tickets, i1, i2, i3, r1, r2, r3, h1, h2, h3, s1, s2, s3,
        o1, o2, o3 = byte(c, p, p + 20)
      local i = (i1 - 33) * 8100 + (i2 - 33) * 90 + i3 - 33
      local id, before, head = A[ids + i], heads[i], A[x + 1]
      x = x + 1
      if shift > 0 then head = more.moved(head, 23, firstFence, shift) end
      if mode == 110 then
        created = created + 1
        head = head .. format('%016d', base + created)
      elseif before then
        head = head .. sub(before, -16)
      end
      if hasBody == 98 then
        x = x + 1
        if before then call('HSETNX', P .. 'k', id, call('HGET', P .. 'j', id)) end
        putBodies[bodiesPut + 1], putBodies[bodiesPut + 2] = id, A[x]
        bodiesPut = bodiesPut + 2
      end
      if mode == 120 then
        gone[#gone + 1] = id
        heads[i] = false
      else
        putHeads[headsPut + 1], putHeads[headsPut + 2] = id, head
        headsPut = headsPut + 2
        heads[i] = head
      end
      if mode ~= 107 then
        x = x + 1
        dated[datedCount + 1], dated[datedCount + 2] = A[x], id
        datedCount = datedCount + 2
        if recorded == 117 and mode == 110 then
          listed[#listed + 1] = format('%016d', base + created)
          listed[#listed + 1] = id
        elseif recorded == 117 and mode == 120 then
          unlisted[#unlisted + 1] = id
        end
        local isLive = live == 43 or live == 61
        local item = isLive and id .. sub(head, 12, 22) or ''
        local r = (r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33
        local realm = realms[r] or NO_REALM
        if tickets ~= 48 then
          local count = tonumber(sub(realm, 46, 50)) + tickets - 48
          realm = sub(realm, 1, 45) .. string.format('%05d', math.max(0, count)) .. sub(realm, 51)
        end
        if shape == 102 then
          local from = #realm > 50 and find(realm, id, 51, true)
          if from then
            realm = sub(realm, 1, from - 1) .. item .. sub(realm, from + 47)
          elseif isLive then
            realm = realm .. item
          end
          if #realm == 50 and sub(realm, 30, 45) == NONE16 then
            idle[#idle + 1] = A[realmNames + r]
          end
        else
          x = x + 1
          more = more or rare()
          trees = trees or more.treesOf()
          trees.list(A[x], id, item, shape == 115)
        end
        realms[r] = realm
        putRealms[realmsPut + 1] = r
        realmsPut = realmsPut + 2
        local h, s, o = (h1 - 33) * 8100 + (h2 - 33) * 90 + h3 - 33,
          (s1 - 33) * 8100 + (s2 - 33) * 90 + s3 - 33, (o1 - 33) * 8100 + (o2 - 33) * 90 + o3 - 33
        if live == 43 then
          joinedCount = joinedCount + 1
          joined[joinedCount], joinedHolder[joinedCount], joinedSession[joinedCount] = id, h, s
        elseif live == 45 then
          leftCount = leftCount + 1
          left[leftCount], leftHolder[leftCount], leftSession[leftCount] = id, h, o
        elseif mode == 115 and isLive then
          call('SREM', P .. 's:' .. A[names + o], id)
          call('SADD', P .. 's:' .. A[names + s], id)
        end
      end
      p = p + 32
    end
    for m = 1, (a7 - 33) * 8100 + (a8 - 33) * 90 + a9 - 33 do
      local event = A[x + m]
      if shift > 0 then event = more.moved(event, 37, firstFence, shift) end
      ledger[events + m] = event
    end
    local lines = (a7 - 33) * 8100 + (a8 - 33) * 90 + a9 - 33
    events, x = events + lines, x + lines
    for m = 1, (a10 - 33) * 8100 + (a11 - 33) * 90 + a12 - 33 do
      local q1, q2, q3, isLong = byte(c, p, p + 3)
      local q = (q1 - 33) * 8100 + (q2 - 33) * 90 + q3 - 33
      local list = isLong == 49 and longMarks or dayMarks
      x, p = x + 1, p + 4
      marked[q] = A[x]
      list[#list + 1] = A[requests + q]
      list[#list + 1] = A[x]
    end
    if firstFence and shift > 0 then lastFence = format('%016d', tonumber(lastFence) + shift) end
    for m = 0, places - 1 do
      local r1, r2, r3 = byte(c, placesAt + m * 39 + 6, placesAt + m * 39 + 8)
      local r = (r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33
      local realm = realms[r] or NO_REALM
      if firstFence or sub(realm, 1, 13) ~= wall then
        realms[r] = wall .. (firstFence and lastFence .. sub(realm, 30) or sub(realm, 14))
        putRealms[realmsPut + 1] = r
        realmsPut = realmsPut + 2
      end
    end
    for m = 1, (a13 - 33) * 8100 + (a14 - 33) * 90 + a15 - 33 do
      local shape, r1, r2, r3 = byte(c, p, p + 3)
      local r = (r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33
      x, p = x + 1, p + 4
      if shape == 102 then
        local realm = realms[r] or NO_REALM
        realms[r] = sub(realm, 1, 29) .. A[x] .. sub(realm, 46)
        putRealms[realmsPut + 1] = r
        realmsPut = realmsPut + 2
      else
        more = more or rare()
        trees = trees or more.treesOf()
        trees.advance(A[x], A[x + 1])
        x = x + 1
      end
    end
    for m = 1, (a16 - 33) * 8100 + (a17 - 33) * 90 + a18 - 33 do
      news[#news + 1] = A[x + 1]
      news[#news + 1] = A[3] .. ' ' .. A[x + 2]
      x = x + 2
    end
    answer[n + 4] = shift
  end
end
`

const FLUSH = `
if not isChanged then return answer end
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
if longMarks[1] then longSince = period end
if idle[1] and idleDay == 0 then idleDay = day end
if idleDay > 0 and idleDay < day - 1 then
  local most = ${TIDY_PER_GROUP} + 2 * #idle
${TIDY}end
local final = base + created + events
call('SET', P .. 'b', format('%016d', final) .. nowText .. string.format('%010d%010d', longSince, idleDay) .. revision)
for n = 1, realmsPut, 2 do
  local r = putRealms[n]
  putRealms[n], putRealms[n + 1] = A[realmNames + r], realms[r]
end
send('HSET', E, putHeads)
if bodiesPut > 0 then send('HSET', P .. 'j', putBodies) end
send('HSET', R, putRealms)
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
    call('XADD', P .. 'l', format('%016d', base + created + first) .. '-0',
      unpack(ledger, first, math.min(first + ${EVENTS_PER_ROW - 1}, events + events % 2)))
  end
end
if dayMarks[1] then
  send('HSET', P .. 'q:' .. day, dayMarks)
  call('PEXPIRE', P .. 'q:' .. day, ${3 * DAY_MS})
end
if longMarks[1] then
  send('HSET', P .. 'Q:' .. period, longMarks)
  call('PEXPIRE', P .. 'Q:' .. period, ${3 * PERIOD_DAYS * DAY_MS})
end
if idle[1] then send('SADD', P .. 'y:' .. day, idle) end
if gone[1] then
  send('HDEL', E, gone)
  send('HDEL', P .. 'j', gone)
  send('HDEL', P .. 'k', gone)
  send('ZREM', P .. 'd', gone)
end
send('ZADD', P .. 'i', listed)
send('ZREM', P .. 'i', unlisted)
if trees then trees.flush() end
for n = 1, #news, 2 do call('PUBLISH', news[n], news[n + 1]) end
return answer
`

const SCRIPT = `${READ}${NOTES}${RARE}${CHECK}${APPLY}${FLUSH}`

export const ATTEMPT_SCRIPT: string = `${WRITING}${SCRIPT}`
/** For attempts that can only miss: it runs wherever something can be read. */
export const VIEW_SCRIPT: string = `${READING}${SCRIPT}`
