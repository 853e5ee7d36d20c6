/**
 * The scripts that the server runs. `ATTEMPT_SCRIPT` carries out a group of attempts: it compares, stores and appends,
 * and knows nothing about leases. All names reach it as data; all keys begin with KEYS[1], whose hash tag puts them
 * into one slot.
 *
 * Keys of a bucket, after its prefix:
 *
 *     b              last position of the ledger, highest server clock seen, revision of the settings
 *     g              hash: the settings
 *     l              stream: the ledger, one entry for each event, at `position-0`
 *     e:ID           the entry: version claim fence liveUs ttlMs created events renewed recent JSON
 *     m:REALM        lastFence lastWallMs tickets epoch; of a flat realm without live entries, for a day
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

/** How long an idle flat realm remembers its last fence and wall time. */
const IDLE_MS = 86_400_000
/** A server clock further behind than this is not believed. */
const CLOCK_BEHIND_US_MAX = 5_000_000
/** How many request ids of renewals are kept with an entry. */
const RECENT_REQUESTS_MAX = 8
const REQUEST_LENGTH = 36

const PREAMBLE = `#!lua
local prefix = KEYS[1] .. ':'
local match, find, sub, format = string.match, string.find, string.sub, string.format
local call = redis.call
local function int(number) return format('%.0f', number) end
local function inChunks(command, key, list)
  for first = 1, #list, 4000 do
    call(command, key, unpack(list, first, math.min(first + 3999, #list)))
  end
end
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function state(text)
  local last, high, revision = match(text or '0 0 0', '^(%d+) (%d+) (%d+)$')
  return tonumber(last), tonumber(high), revision
end
`

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
  if shape == 'f' then return end
  listed(prefix .. 'u:' .. resource, id, shape == 's' and number)
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
  local list = read(prefix .. 'c:' .. place.resource) or ''
  if place.shape == 'f' then return list end
  list = list .. above(place.resource)
  if place.shape == 's' then list = list .. below(place.resource) end
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

/** Reads ARGV into tables, and everything that the group is sure to need with one command. */
const PARSE = `
local keys = { prefix .. 'b' }
local at = 5
local function want(kind, name) keys[#keys + 1] = prefix .. kind .. name end
local function parsePlace()
  local id, own, prior, epoch, shape, request =
    match(ARGV[at], '^(%S+) (%d+) (%d) (%d+) (%a) (%S+)$')
  local resource = ARGV[at + 1]
  local realm = shape == 'f' and resource or match(resource, '^[^:]*:')
  want('e:', id)
  want('m:', realm)
  if request ~= '-' then want('q:', request) end
  if ARGV[at + 2] ~= '*' then want('c:', resource) end
  if shape ~= 'f' then want('o:', resource) end
  local place = {
    id = id, own = own, prior = prior, epoch = epoch, shape = shape, request = request,
    resource = resource, realm = realm, claims = ARGV[at + 2],
  }
  at = at + 3
  return place
end
local EXTRA = { k = 0, u = 1, n = 3, x = 3, s = 3 }
local function parseWrite()
  local id, before, version, claim, fence, live, ttl, ended, tickets, mode, shape, from =
    match(ARGV[at], '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%a)(%a) ()')
  local entry = {
    id = id, before = before, version = version, claim = claim, fence = fence, live = live,
    ttl = ttl, ended = ended, tickets = tickets, mode = mode, shape = shape,
    text = sub(ARGV[at], from), resource = ARGV[at + 1], one = ARGV[at + 2], two = ARGV[at + 3],
  }
  want('e:', id)
  at = at + 1 + EXTRA[mode]
  return entry
end
local function parseAttempt()
  local from, before, wall, first, last, places, writes, events, requests, epochs, wakes =
    match(ARGV[at], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  at = at + 1
  local attempt = {
    from = tonumber(from), before = tonumber(before), wall = tonumber(wall),
    first = tonumber(first), last = tonumber(last), places = {}, writes = {},
  }
  for n = 1, tonumber(places) do attempt.places[n] = parsePlace() end
  for n = 1, tonumber(writes) do attempt.writes[n] = parseWrite() end
  attempt.events, at = at, at + tonumber(events)
  attempt.requests, at = at, at + tonumber(requests)
  attempt.epochs, at = at, at + 2 * tonumber(epochs)
  attempt.wakes, at = at, at + 2 * tonumber(wakes)
  attempt.ends = at
  return attempt
end
local attempts = {}
for n = 1, tonumber(ARGV[4]) do attempts[n] = parseAttempt() end
prefetch(keys)
`

/** Whether an attempt's premises hold, and what to tell if they do not. */
const CHECK = `
local realms = {}
local function realmOf(name, shape)
  local realm = realms[name]
  if realm then return realm end
  local text = read(prefix .. 'm:' .. name) or '0 0 0 0'
  local fence, wall, tickets, epoch = match(text, '^(%d+) (%d+) (%d+) (%d+)$')
  realm = {
    name = name, fence = tonumber(fence), wall = tonumber(wall), tickets = tonumber(tickets),
    epoch = epoch, isFlat = shape == 'f', isDirty = false,
  }
  realms[name] = realm
  return realm
end
local function epochOf(place)
  if place.shape == 'f' then return realmOf(place.realm, 'f').epoch end
  return read(prefix .. 'o:' .. place.resource) or '0'
end
local function priorOf(place)
  if place.request == '-' then return nil end
  local own = read(prefix .. 'e:' .. place.id)
  local recent = own and match(own, '^%S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%S+)')
  if recent and find(recent, place.request, 1, true) then return place.id, '-' end
  local known = read(prefix .. 'q:' .. place.request)
  if not known then return nil end
  local lease, kind, keep, source = match(known, '^(%S+) (%S+) (%d+) (%a)$')
  if source == 'e' and not read(prefix .. 'e:' .. lease) then return nil end
  if source == 'm' and tonumber(keep) * 1000 < now then return nil end
  return lease, kind
end
local function versionOf(id)
  local record = read(prefix .. 'e:' .. id)
  return record and match(record, '^%d+') or '0'
end
local function holds(attempt)
  if now < attempt.from or now >= attempt.before then return false end
  for _, place in ipairs(attempt.places) do
    if versionOf(place.id) ~= place.own then return false end
    if (priorOf(place) and '1' or '0') ~= place.prior then return false end
    if realmOf(place.realm, place.shape).wall > attempt.wall then return false end
    if epochOf(place) ~= place.epoch then return false end
    if place.claims ~= '*' and not sameClaims(place.claims, claimsAt(place)) then return false end
  end
  for _, entry in ipairs(attempt.writes) do
    if versionOf(entry.id) ~= entry.before then return false end
  end
  return true
end
local function viewOf(place)
  local realm = realmOf(place.realm, place.shape)
  local prior, kind = priorOf(place)
  local view = {
    int(realm.fence), int(realm.wall), int(realm.tickets), epochOf(place), prior or '', kind or '',
  }
  local seen = {}
  local function show(id)
    local record = not seen[id] and read(prefix .. 'e:' .. id)
    seen[id] = true
    if not record then return end
    view[#view + 1] = id
    view[#view + 1] = record
  end
  if place.claims ~= '*' then
    for id in string.gmatch(claimsAt(place), '(%S+) %S+ ') do show(id) end
  end
  show(place.id)
  if prior then show(prior) end
  return view
end
`

/** Collects what an attempt changes. */
const APPLY = `
local last, high, revision = state(cache[keys[1]])
local isChanged = false
local ledger, pushed, dropped, marks, news = {}, {}, {}, {}, {}
local function position()
  last = math.max(last + 1, now)
  return int(last)
end
local function remember(request, text, keepMs)
  cache[prefix .. 'q:' .. request] = text
  marks[#marks + 1] = { request, text, keepMs }
end
local function register(entry, created)
  score(prefix .. 'i', entry.id, created)
  score(prefix .. 'h:' .. entry.one, entry.id, created)
  score(prefix .. 's:' .. entry.two, entry.id, created)
  pushed[#pushed + 1] = entry
end
local function unregister(entry)
  score(prefix .. 'i', entry.id, false)
  score(prefix .. 'h:' .. entry.one, entry.id, false)
  score(prefix .. 's:' .. entry.two, entry.id, false)
  dropped[#dropped + 1] = entry
end
local function relist(entry, wasLive, isLive)
  if wasLive or isLive then claim(entry.id, entry.resource, entry.shape, isLive and entry.claim) end
  score(prefix .. 'd', entry.id, isLive and entry.live)
  score(prefix .. 'x', entry.id, entry.ended ~= '0' and entry.ended)
  if entry.tickets ~= '0' then
    local name = entry.shape == 'f' and entry.resource or match(entry.resource, '^[^:]*:')
    local realm = realmOf(name, entry.shape)
    realm.tickets = math.max(0, realm.tickets + tonumber(entry.tickets))
    realm.isDirty = true
  end
end
-- The numbers of a record that are the server's own; nil for an entry that is to be forgotten.
local function put(entry, moved)
  local record = read(prefix .. 'e:' .. entry.id)
  local live, created, events, renewed, recent = '0', nil, 0, '0', '-'
  if record then
    live, created, events, renewed, recent =
      match(record, '^%S+ %S+ %S+ (%d+) %S+ (%d+) (%d+) (%d+) (%S+)')
    events = tonumber(events)
  end
  if entry.mode == 'x' then
    relist(entry, live ~= '0', false)
    unregister(entry)
    write(prefix .. 'e:' .. entry.id, false)
    return nil
  end
  if not record then
    created = position()
    register(entry, created)
  end
  if entry.mode == 's' then
    score(prefix .. 's:' .. entry.one, entry.id, false)
    score(prefix .. 's:' .. entry.two, entry.id, created)
  end
  if entry.mode ~= 'k' then relist(entry, live ~= '0', entry.live ~= '0') end
  return {
    entry = entry, fence = moved(entry.fence), created = created, events = events,
    renewed = renewed, recent = recent,
  }
end
local function append(text, kept, moved)
  local id, fence, mark, from, request, keep, kind =
    match(text, '^(%S+) (%d+) (%a) ()%d+ (%S+) (%d+) (%S+)')
  local place = position()
  local shifted = moved(fence)
  if shifted ~= fence then
    text = id .. ' ' .. shifted .. ' ' .. mark .. ' ' .. sub(text, from)
  end
  ledger[#ledger + 1] = { place, text }
  local record = kept[id]
  if record then
    record.events = record.events + 1
    if mark == 'r' then record.renewed = place end
  end
  if request == '-' then return end
  remember(request, id .. ' ' .. kind .. ' 0 e', keep)
  if mark == 'r' and record then
    local recent = record.recent == '-' and request or record.recent .. ',' .. request
    record.recent = sub(recent, -${RECENT_REQUESTS_MAX * (REQUEST_LENGTH + 1) - 1})
  end
end
local function apply(attempt)
  local shift = 0
  if attempt.first > 0 then
    for _, place in ipairs(attempt.places) do
      shift = math.max(shift, realmOf(place.realm, place.shape).fence + 1 - attempt.first)
    end
  end
  local function moved(fence)
    if shift == 0 or tonumber(fence) < attempt.first then return fence end
    return int(tonumber(fence) + shift)
  end
  local kept = {}
  for _, entry in ipairs(attempt.writes) do kept[entry.id] = put(entry, moved) end
  for n = attempt.events, attempt.requests - 1 do append(ARGV[n], kept, moved) end
  for id, record in pairs(kept) do
    local entry = record.entry
    write(prefix .. 'e:' .. id, table.concat({
      entry.version, entry.claim, record.fence, entry.live, entry.ttl, record.created,
      record.events, record.renewed, record.recent, entry.text,
    }, ' '))
  end
  for n = attempt.requests, attempt.epochs - 1 do
    local request, lease, kind, keep = match(ARGV[n], '^(%S+) (%S+) (%S+) (%d+)$')
    local text = lease .. ' ' .. kind .. ' ' .. keep .. ' m'
    remember(request, text, int(tonumber(keep) - attempt.wall))
  end
  for n = attempt.wakes, attempt.ends - 1, 2 do
    news[#news + 1] = { ARGV[n], ARGV[3] .. ' ' .. ARGV[n + 1] }
  end
  for _, place in ipairs(attempt.places) do
    local realm = realmOf(place.realm, place.shape)
    realm.wall, realm.isDirty = attempt.wall, true
    if attempt.first > 0 then realm.fence = attempt.last + shift end
  end
  for n = attempt.epochs, attempt.wakes - 1, 2 do
    local realm = realms[ARGV[n]]
    if realm then realm.epoch = ARGV[n + 1] else write(prefix .. 'o:' .. ARGV[n], ARGV[n + 1]) end
  end
  isChanged = true
  return shift
end
`

const FLUSH = `
local function flush()
  for _, realm in pairs(realms) do
    if realm.isDirty then
      local key = prefix .. 'm:' .. realm.name
      local text = int(realm.fence) .. ' ' .. int(realm.wall) .. ' ' .. int(realm.tickets) .. ' ' .. realm.epoch
      if realm.isFlat and realm.epoch == '0' and not read(prefix .. 'c:' .. realm.name) then
        call('SET', key, text, 'PX', ${IDLE_MS})
      else
        write(key, text)
      end
    end
  end
  write(keys[1], int(last) .. ' ' .. int(now) .. ' ' .. revision)
  local put, removed = {}, {}
  for key in pairs(dirty) do
    local value = cache[key]
    if value then
      put[#put + 1] = key
      put[#put + 1] = value
    else
      removed[#removed + 1] = key
    end
  end
  for first = 1, #put, 4000 do call('MSET', unpack(put, first, math.min(first + 3999, #put))) end
  for first = 1, #removed, 4000 do
    call('DEL', unpack(removed, first, math.min(first + 3999, #removed)))
  end
  for resource, some in pairs(grown) do score(prefix .. 't', resource, some and '0') end
  flushSorted()
  for _, entry in ipairs(pushed) do call('RPUSH', prefix .. 'n:' .. entry.resource, entry.id) end
  for _, entry in ipairs(dropped) do call('LREM', prefix .. 'n:' .. entry.resource, 1, entry.id) end
  for _, event in ipairs(ledger) do call('XADD', prefix .. 'l', event[1] .. '-0', 'e', event[2]) end
  for _, mark in ipairs(marks) do
    if tonumber(mark[3]) > 0 then call('SET', prefix .. 'q:' .. mark[1], mark[2], 'PX', mark[3]) end
  end
  for _, wake in ipairs(news) do call('PUBLISH', wake[1], wake[2]) end
end
`

/** ARGV: clock or '', revision of the settings, name of the sender, number of attempts, attempts. */
export const ATTEMPT_SCRIPT: string = `${PREAMBLE}
local now = clock(ARGV[1])
${CACHE}${CLAIMS}${PARSE}${CHECK}${APPLY}${FLUSH}
local behind = high - now
now = math.max(now, high + 1)
local isCurrent = revision == ARGV[2]
local answer = { int(now), revision, isCurrent or call('HGETALL', prefix .. 'g'), 0 }
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

/** ARGV: clock or '', field, and its value unless it is to be removed. Answers with the new revision. */
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
return raised
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
 * clock, where to go on ('' at the end), then ids and records.
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
local answer, created = { '' }, {}
for _, row in ipairs(rows) do
  local place, text = match(row[1], '^%d+'), row[2][2]
  local id = match(text, '^%S+')
  if ARGV[5] == '' or ARGV[5] == id then
    if created[id] == nil then
      local record = call('GET', prefix .. 'e:' .. id)
      created[id] = record and tonumber(match(record, '^%S+ %S+ %S+ %S+ %S+ (%d+)')) or false
    end
    if created[id] and created[id] < tonumber(place) then
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
 * put where it belongs. ARGV: clock or '', how many. Answers with the clock, then ids and records.
 */
export const DUE_SCRIPT: string = `${PREAMBLE}
local now = clock(ARGV[1])
local last, high = state(call('GET', prefix .. 'b'))
now = math.max(now, high)
local answer, most = { int(now) }, tonumber(ARGV[2])
local from = 0
while #answer <= 2 * most and from < 20 * most do
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
    end
  end
end
return answer
`

/**
 * Forgets ended entries with all that is known of them. ARGV: endedBeforeMs, nowMs, then for each entry its id,
 * version, resource, holder and session. Answers with the number of entries and of their events.
 */
export const FORGET_SCRIPT: string = `${PREAMBLE}
local entries, events = 0, 0
for at = 1, #ARGV, 5 do
  local id, version, resource = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local record = call('GET', prefix .. 'e:' .. id)
  local kept, live, count = match(record or '', '^(%d+) %d+ %d+ (%d+) %d+ %d+ (%d+)')
  if kept == version and live == '0' then
    entries, events = entries + 1, events + tonumber(count)
    call('DEL', prefix .. 'e:' .. id)
    call('ZREM', prefix .. 'i', id)
    call('ZREM', prefix .. 'x', id)
    call('ZREM', prefix .. 'h:' .. ARGV[at + 3], id)
    call('ZREM', prefix .. 's:' .. ARGV[at + 4], id)
    call('LREM', prefix .. 'n:' .. resource, 1, id)
  end
end
return { entries, events }
`

/**
 * Takes from the old part of the ledger what nobody can see any more, and renewals that a later one has superseded.
 * ARGV: first position, position to stop at, before which wall time renewals are old, before which those that a
 * request asked for are, how many. Answers with the next position, or '' at the end, and the number of renewals.
 */
export const TRIM_SCRIPT: string = `${PREAMBLE}
local rows = call('XRANGE', prefix .. 'l', ARGV[1], ARGV[2], 'COUNT', ARGV[5])
local gone, renewals, changed = {}, 0, {}
for _, row in ipairs(rows) do
  local place = match(row[1], '^%d+')
  local id, mark, at, request = match(row[2][2], '^(%S+) %d+ (%a) (%d+) (%S+)')
  local record = changed[id] or call('GET', prefix .. 'e:' .. id)
  local head, created, count, renewed, rest =
    match(record or '', '^(%d+ %d+ %d+ %d+ %d+) (%d+) (%d+) (%d+)( .*)$')
  if not head or tonumber(created) >= tonumber(place) then
    gone[#gone + 1] = row[1]
  elseif mark == 'r' and tonumber(renewed) > tonumber(place)
    and tonumber(at) < tonumber(request == '-' and ARGV[3] or ARGV[4]) then
    gone[#gone + 1] = row[1]
    renewals = renewals + 1
    changed[id] = head .. ' ' .. created .. ' ' .. int(count - 1) .. ' ' .. renewed .. rest
  end
end
if #gone > 0 then inChunks('XDEL', prefix .. 'l', gone) end
for id, record in pairs(changed) do call('SET', prefix .. 'e:' .. id, record) end
if #rows < tonumber(ARGV[5]) then return { '', renewals } end
return { '(' .. rows[#rows][1], renewals }
`
