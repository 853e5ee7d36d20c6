/**
 * The script that carries out a group of attempts: it compares, stores and appends, and knows nothing about leases. All names reach it as data; all keys begin with KEYS[1], whose hash tag puts them
 * into one slot.
 *
 * Keys of a bucket, after its prefix:
 *
 *     b              last position of the ledger, highest server clock seen, revision of the settings
 *     g              hash: the settings
 *     l              stream: the ledger, one entry for each event, at `position-0`
 *     e:ID           the entry: version claim fence liveUs ttlMs renewals, the request of the last renewal, JSON
 *     m:REALM        lastWallMs lastFence tickets epoch; of a flat realm without live entries, for a day
 *     c:RESOURCE     live entries on a resource: `id claim ` for each
 *     u:RESOURCE     those of them that cover its subtree
 *     t              sorted set of the resources of trees that have live entries, by name
 *     o:RESOURCE     the epoch of a resource of a tree
 *     q:REQUEST      what a request id has done: lease type keepUntilMs kind
 *     n:RESOURCE     list of all entries on a resource, by creation
 *     i, h:HOLDER, s:SESSION   sorted sets of all entries, by creation
 *     d              sorted set of live entries, by a tick that is not later than their deadline
 *     x              sorted set of ended entries, by their end
 *     p              where the pruning of the ledger has got to
 *
 * Writes are collected and made at the end, so that whatever makes an attempt miss leaves nothing half done. The first
 * line lets the server refuse the whole script when it is out of memory or may not write.
 */

import { PREAMBLE } from './redis-script-preamble.ts'

/** How long an idle flat realm remembers its last fence and wall time. */
const IDLE_MS = 86_400_000
/** A server clock further behind than this is not believed. */
const CLOCK_BEHIND_US_MAX = 5_000_000

/** What has been read, and what is to be written, by key. */
const CACHE = `
local cache, dirty = {}, {}
local function read(key)
  local value = cache[key]
  if value == nil then
    value = call('GET', key)
    cache[key] = value
  end
  return value
end
local function write(key, value)
  cache[key] = value
  dirty[key] = true
end
local function prefetch(keys)
  for first = 1, #keys, 4000 do
    local last = math.min(first + 3999, #keys)
    local values = call('MGET', unpack(keys, first, last))
    for n = first, last do cache[keys[n]] = values[n - first + 1] end
  end
end
-- Changes of sorted sets, by key and member: a score, or false.
local sorted = {}
local function score(key, member, value)
  local members = sorted[key]
  if not members then
    members = {}
    sorted[key] = members
  end
  members[member] = value
end
local function flushSorted()
  for key, members in pairs(sorted) do
    local added, removed = {}, {}
    for member, value in pairs(members) do
      if value then
        added[#added + 1] = value
        added[#added + 1] = member
      else
        removed[#removed + 1] = member
      end
    end
    if #added > 0 then inChunks('ZADD', key, added) end
    if #removed > 0 then inChunks('ZREM', key, removed) end
  end
end
`

/** Lists of claims, and the trees in which they may lie. */
const CLAIMS = `
local function listed(key, id, claim)
  local list = read(key) or ''
  local from, to = find(list, id .. ' ', 1, true)
  local item = claim and (id .. ' ' .. claim .. ' ') or ''
  if from then
    local rest = find(list, ' ', to + 1, true)
    list = sub(list, 1, from - 1) .. item .. sub(list, rest + 1)
  elseif claim then
    list = list .. item
  else
    return list ~= ''
  end
  write(key, list ~= '' and list or false)
  return list ~= ''
end
-- Resources of trees that have got, or lost, their live entries in this script.
local grown = {}
local function claim(id, resource, shape, number)
  local some = listed(prefix .. 'c:' .. resource, id, number)
  if shape.isFlat then return end
  listed(prefix .. 'u:' .. resource, id, shape.isSubtree and number)
  grown[resource] = some
end
local function above(resource)
  local list, name = '', resource
  local root = find(resource, ':', 1, true) + 1
  while #name > root do
    local slash = #name
    while sub(name, slash, slash) ~= '/' do slash = slash - 1 end
    name = sub(name, 1, slash == root and root or slash - 1)
    list = list .. (read(prefix .. 'u:' .. name) or '')
  end
  return list
end
local function below(resource)
  local stem = sub(resource, -1) == '/' and resource or resource .. '/'
  local names, list = {}, ''
  local range = { '(' .. stem, '(' .. sub(stem, 1, -2) .. '0' }
  for _, name in ipairs(call('ZRANGEBYLEX', prefix .. 't', range[1], range[2])) do
    names[name] = true
  end
  for name, some in pairs(grown) do
    if #name > #stem and sub(name, 1, #stem) == stem then names[name] = some end
  end
  local keys = {}
  for name, some in pairs(names) do
    local key = prefix .. 'c:' .. name
    if some and cache[key] == nil then keys[#keys + 1] = key end
  end
  prefetch(keys)
  for name, some in pairs(names) do
    if some then list = list .. (read(prefix .. 'c:' .. name) or '') end
  end
  return list
end
local function claimsAt(place)
  local list = read(place.claimsKey) or ''
  if place.isFlat then return list end
  list = list .. above(place.resource)
  if place.isSubtree then list = list .. below(place.resource) end
  return list
end
local function sameClaims(expected, list)
  if expected == list then return true end
  if #expected ~= #list then return false end
  local numbers = {}
  for id, number in string.gmatch(list, '(%S+) (%S+) ') do numbers[id] = number end
  for id, number in string.gmatch(expected, '(%S+) (%S+) ') do
    if numbers[id] ~= number then return false end
  end
  return true
end
`

/**
 * Reads ARGV into tables, and everything that the group is sure to need with one command. What is large is an argument
 * of its own and stored as it came: making a large string costs Lua more than all else that it does here.
 *
 *     attempt   fromUs[16] beforeUs[16] wallMs[13] firstFence[16] lastFence[16], then six counts of three characters
 *     place     id[36] hasPrior[1] shape[1] requestId[36] version ' ' epoch; resource; claims, or * for any
 *     write     mode[1] shape[1] id[36] version ' ' tickets ' ' endedAtMs; record; what the mode needs
 *     mark      requestId[36] forMs ' ' what it has done
 */
const PARSE = `
local keys = { prefix .. 'b' }
local at, wanted = 5, 1
local E, M, C, Q, O = prefix .. 'e:', prefix .. 'm:', prefix .. 'c:', prefix .. 'q:', prefix .. 'o:'
local FLAT, SUBTREE, YES, KEEP, FORGET = 102, 115, 49, 107, 120
local function want(key)
  wanted = wanted + 1
  keys[wanted] = key
  return key
end
local function parsePlace()
  local text, resource, claims = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local prior, shape, request = byte(text, 37, 39)
  local gap = find(text, ' ', 76, true)
  at = at + 3
  return {
    key = want(E .. sub(text, 1, 36)), own = sub(text, 75, gap), epoch = sub(text, gap + 1),
    hasPrior = prior == YES, isFlat = shape == FLAT, isSubtree = shape == SUBTREE,
    realmKey = want(M .. (shape == FLAT and resource or match(resource, '^[^:]*:'))),
    requestKey = request ~= 45 and want(Q .. sub(text, 39, 74)), text = text,
    claimsKey = claims ~= '*' and want(C .. resource), claims = claims, resource = resource,
  }
end
-- u: resource; s: resource, old and new session; n, x: resource, holder, session.
local EXTRA = { [KEEP] = 0, [117] = 1, [110] = 3, [120] = 3, [115] = 3 }
local function parseWrite()
  local text, first = ARGV[at], at
  local mode, shape = byte(text, 1, 2)
  local gap = find(text, ' ', 40, true)
  at = at + 2 + EXTRA[mode]
  local entry = {
    id = sub(text, 3, 38), mode = mode, before = sub(text, 39, gap), record = ARGV[first + 1],
  }
  entry.key = want(E .. entry.id)
  if mode == KEEP then return entry end
  entry.isFlat, entry.isSubtree = shape == FLAT, shape == SUBTREE
  entry.tickets, entry.ended = match(text, '^(%S+) (%d+)', gap + 1)
  entry.resource, entry.one, entry.two = ARGV[first + 2], ARGV[first + 3], ARGV[first + 4]
  return entry
end
local function number(a, b, c) return ((a - 33) * 90 + b - 33) * 90 + c - 33 end
local function parseAttempt()
  local text = ARGV[at]
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r = byte(text, 78, 95)
  local attempt = {
    from = sub(text, 1, 16), before = sub(text, 17, 32), wall = sub(text, 33, 45),
    first = sub(text, 46, 61), last = sub(text, 62, 77), places = {}, writes = {},
  }
  at = at + 1
  for x = 1, number(a, b, c) do attempt.places[x] = parsePlace() end
  for x = 1, number(d, e, f) do attempt.writes[x] = parseWrite() end
  attempt.events, at = at, at + number(g, h, i)
  attempt.marks, at = at, at + number(j, k, l)
  attempt.epochs, at = at, at + 2 * number(m, n, o)
  attempt.wakes, at = at, at + 2 * number(p, q, r)
  attempt.ends = at
  return attempt
end
local attempts = {}
for n = 1, tonumber(ARGV[4]) do attempts[n] = parseAttempt() end
prefetch(keys)
`

/** Whether an attempt's premises hold, and what to tell if they do not. Numbers of fixed width compare as text. */
const CHECK = `
local NO_REALM, NO_FENCE = '0000000000000 0000000000000000 0 0', '0000000000000000'
local function epochOf(place, realm)
  if not place.isFlat then return read(O .. place.resource) or '0' end
  if sub(realm, -2) == ' 0' then return '0' end
  return match(realm, '%d+$')
end
local function priorOf(place)
  if not place.requestKey then return nil end
  local own, request = read(place.key), sub(place.text, 39, 74)
  if own and find(own, request, 1, true) then
    local renewal = match(own, '^%d+ %d+ %d+ %d+ %d+ %d+ (%S+)')
    if renewal == request then return sub(place.text, 1, 36), '-' end
  end
  local known = read(place.requestKey)
  if not known then return nil end
  local lease, kind, keep, source = match(known, '^(%S+) (%S+) (%d+) (%a)$')
  if source == 'e' and not read(E .. lease) then return nil end
  if source == 'm' and tonumber(keep) * 1000 < now then return nil end
  return lease, kind
end
local function isAt(record, version)
  if record then return sub(record, 1, #version) == version end
  return version == '0 '
end
local function holds(attempt)
  if nowText < attempt.from or nowText >= attempt.before then return false end
  for _, place in ipairs(attempt.places) do
    local realm = read(place.realmKey) or NO_REALM
    if attempt.wall < sub(realm, 1, 13) then return false end
    if not isAt(read(place.key), place.own) then return false end
    if (priorOf(place) ~= nil) ~= place.hasPrior then return false end
    if epochOf(place, realm) ~= place.epoch then return false end
    if place.claimsKey and not sameClaims(place.claims, claimsAt(place)) then return false end
  end
  for _, entry in ipairs(attempt.writes) do
    if not isAt(read(entry.key), entry.before) then return false end
  end
  return true
end
local function viewOf(place)
  local realm = read(place.realmKey) or NO_REALM
  local wall, fence, tickets = match(realm, '^(%d+) (%d+) (%d+)')
  local prior, kind = priorOf(place)
  local view = { fence, wall, tickets, epochOf(place, realm), prior or '', kind or '' }
  local seen = {}
  local function show(id)
    local record = not seen[id] and read(E .. id)
    seen[id] = true
    if not record then return end
    view[#view + 1] = id
    view[#view + 1] = record
  end
  if place.claimsKey then
    for id in string.gmatch(claimsAt(place), '(%S+) %S+ ') do show(id) end
  end
  show(sub(place.text, 1, 36))
  if prior then show(prior) end
  return view
end
`

/** Collects what an attempt changes. */
const APPLY = `
local last, high, revision = state(cache[keys[1]])
local isChanged = false
local ledger, places, pushed, dropped, marks, news, idle = {}, {}, {}, {}, {}, {}, {}
local function position()
  last = last + 1
  if last < now then last = now end
  return int(last)
end
local function register(entry, created)
  score(prefix .. 'i', entry.id, created)
  score(prefix .. 'h:' .. entry.one, entry.id, created)
  score(prefix .. 's:' .. entry.two, entry.id, created)
end
local function count(entry)
  local key = M .. (entry.isFlat and entry.resource or match(entry.resource, '^[^:]*:'))
  local head, tickets, epoch = match(read(key) or NO_REALM, '^(%d+ %d+) (%d+) (%d+)$')
  write(key, head .. ' ' .. math.max(0, tickets + entry.tickets) .. ' ' .. epoch)
end
local function relist(entry, wasLive)
  local number, live = match(entry.record, '^%d+ (%d+) %d+ (%d+)')
  local isLive = entry.mode ~= FORGET and live ~= '0'
  if wasLive or isLive then
    claim(entry.id, entry.resource, entry, isLive and number)
    if entry.isFlat then idle[M .. entry.resource] = C .. entry.resource end
  end
  score(prefix .. 'd', entry.id, isLive and live)
  score(prefix .. 'x', entry.id, entry.ended ~= '0' and entry.ended)
  if entry.tickets ~= '0' then count(entry) end
end
local function change(entry, record)
  local before = read(entry.key)
  relist(entry, before and match(before, '^%d+ %d+ %d+ (%d+)') ~= '0')
  if entry.mode == FORGET then
    register(entry, false)
    dropped[#dropped + 1] = entry
    return write(entry.key, false)
  end
  if not before then
    register(entry, position())
    pushed[#pushed + 1] = entry
  elseif entry.mode == SUBTREE then
    score(prefix .. 's:' .. entry.one, entry.id, false)
    score(prefix .. 's:' .. entry.two, entry.id, call('ZSCORE', prefix .. 'i', entry.id) or '0')
  end
  write(entry.key, record)
end
-- A fence is the third number of a record and the second word of an event.
local function moved(text, pattern, first, shift)
  if shift == 0 then return text end
  local head, fence, rest = match(text, pattern)
  if tonumber(fence) < tonumber(first) then return text end
  return head .. int(tonumber(fence) + shift) .. rest
end
local function shiftOf(attempt)
  local shift = 0
  if attempt.first == NO_FENCE then return shift end
  for _, place in ipairs(attempt.places) do
    local fence = sub(read(place.realmKey) or NO_REALM, 15, 30)
    if fence >= attempt.first then
      shift = math.max(shift, tonumber(fence) + 1 - tonumber(attempt.first))
    end
  end
  return shift
end
local function noteRealms(attempt, shift)
  local fence = attempt.last
  if shift > 0 then fence = int(tonumber(fence) + shift) end
  for _, place in ipairs(attempt.places) do
    local realm = read(place.realmKey) or NO_REALM
    if fence == NO_FENCE then
      write(place.realmKey, attempt.wall .. sub(realm, 14))
    else
      write(place.realmKey, attempt.wall .. ' ' .. fence .. sub(realm, 31))
    end
  end
end
local function noteEpoch(resource, epoch)
  local key = M .. resource
  local realm = cache[key]
  if realm then write(key, match(realm, '^%d+ %d+ %d+ ') .. epoch) else write(O .. resource, epoch) end
end
local function apply(attempt)
  local shift = shiftOf(attempt)
  for _, entry in ipairs(attempt.writes) do
    local record = moved(entry.record, '^(%d+ %d+ )(%d+)(.*)$', attempt.first, shift)
    if entry.mode == KEEP then write(entry.key, record) else change(entry, record) end
  end
  for n = attempt.events, attempt.marks - 1 do
    ledger[#ledger + 1] = moved(ARGV[n], '^(%S+ )(%d+)(.*)$', attempt.first, shift)
    places[#ledger] = position()
  end
  for n = attempt.marks, attempt.epochs - 1 do
    local mark = ARGV[n]
    local gap = find(mark, ' ', 37, true)
    local key, text = Q .. sub(mark, 1, 36), sub(mark, gap + 1)
    cache[key] = text
    marks[#marks + 1] = { key, text, sub(mark, 37, gap - 1) }
  end
  for n = attempt.wakes, attempt.ends - 1, 2 do
    news[#news + 1] = { ARGV[n], ARGV[3] .. ' ' .. ARGV[n + 1] }
  end
  noteRealms(attempt, shift)
  for n = attempt.epochs, attempt.wakes - 1, 2 do noteEpoch(ARGV[n], ARGV[n + 1]) end
  isChanged = true
  return shift
end
`

const FLUSH = `
local function flush()
  write(keys[1], int(last) .. ' ' .. nowText .. ' ' .. revision)
  for key, claimsKey in pairs(idle) do
    local text = cache[key]
    if text and sub(text, -2) == ' 0' and not read(claimsKey) then
      call('SET', key, text, 'PX', ${IDLE_MS})
      dirty[key] = nil
    end
  end
  local put, removed, filled = {}, {}, 0
  for key in pairs(dirty) do
    local value = cache[key]
    if value then
      put[filled + 1], put[filled + 2] = key, value
      filled = filled + 2
    else
      removed[#removed + 1] = key
    end
  end
  for first = 1, filled, 4000 do call('MSET', unpack(put, first, math.min(first + 3999, filled))) end
  for first = 1, #removed, 4000 do
    call('DEL', unpack(removed, first, math.min(first + 3999, #removed)))
  end
  for resource, some in pairs(grown) do score(prefix .. 't', resource, some and '0') end
  flushSorted()
  for _, entry in ipairs(pushed) do call('RPUSH', prefix .. 'n:' .. entry.resource, entry.id) end
  for _, entry in ipairs(dropped) do call('LREM', prefix .. 'n:' .. entry.resource, 1, entry.id) end
  local stream = prefix .. 'l'
  for n, event in ipairs(ledger) do call('XADD', stream, places[n] .. '-0', 'e', event) end
  for _, mark in ipairs(marks) do
    if tonumber(mark[3]) > 0 then call('SET', mark[1], mark[2], 'PX', mark[3]) end
  end
  for _, wake in ipairs(news) do call('PUBLISH', wake[1], wake[2]) end
end
`

/** ARGV: clock or '', revision of the settings, name of the sender, number of attempts, attempts. */
export const ATTEMPT_SCRIPT: string = `${PREAMBLE}
local now, nowText = clock(ARGV[1]), nil
local byte = string.byte
${CACHE}${CLAIMS}${PARSE}${CHECK}${APPLY}${FLUSH}
local behind = high - now
now = math.max(now, high + 1)
nowText = int(now)
local isCurrent = revision == ARGV[2]
local answer = { nowText, revision, isCurrent or call('HGETALL', prefix .. 'g'), 0 }
if isCurrent then answer[3] = false end
if behind > ${CLOCK_BEHIND_US_MAX} then
  answer[4] = int(math.ceil(behind / 1000))
  return answer
end
for n, attempt in ipairs(attempts) do
  if isCurrent and holds(attempt) then
    answer[n + 4] = #attempt.writes > 0 and apply(attempt) or 0
  else
    local views = {}
    for m, place in ipairs(attempt.places) do views[m] = viewOf(place) end
    answer[n + 4] = views
  end
end
if isChanged then flush() end
return answer
`
