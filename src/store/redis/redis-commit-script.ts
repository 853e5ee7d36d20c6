/**
 * The one script that commits: it compares what a group of attempts depends on with what is there, writes, and appends to
 * the ledger. It knows nothing about leases. redis-layout.ts says what is where; redis-records.ts makes the group, whose
 * fields have the same names there (`groupArgument`), and reads the answer.
 *
 *  1. READ refuses a bucket of another incarnation of the namespace, looks at the group and the clock, and refuses the group
 *     if the clock is too far behind the last commit. If the settings have another revision, every attempt misses, and the
 *     answer has the settings.
 *  2. Attempts are carried out in order. COMPARE looks at all that one depends on before APPLY notes anything of it.
 *  3. APPLY notes what it changes in Lua tables, which the next attempts see. An attempt that misses gets a VIEW of what is
 *     there instead, and leaves no trace.
 *  4. FLUSH publishes the wake-ups, and writes all that was noted, with one command for each key.
 *
 * Redis runs a script alone, so nothing can come between these steps.
 */
import { STORE_CLOCK_BEHIND_US_MAX } from '../../core/limits.ts'
import {
  DAY_MS,
  EVENTS_PER_ROW,
  LOAD_STATE,
  MONTH_DAYS,
  scriptOf,
  type Script,
} from './redis-layout.ts'

/**
 * Reads the group and the state. While the clock is up to 5 s behind the last commit, time goes on by a microsecond with each
 * commit; beyond that the group is refused.
 */
const READ = `${LOAD_STATE}
local group = cjson.decode(ARGV[1])
local attempts, now = group.attempts, clock()
local lag = state.high - now
if lag >= 0 then now = state.high + 1 end
local isCurrent = state.revision == group.settingsRevision
local answer = { now, state.revision, not isCurrent and call('HGETALL', P .. 'settings'), 0, #attempts }
if lag > ${STORE_CLOCK_BEHIND_US_MAX} then
  answer[4] = math.ceil(lag / 1000)
  return answer
end
local day = math.floor(now / ${DAY_MS * 1000})
local month = math.floor(day / ${MONTH_DAYS})
local epochs, marks, markKeys = hash('epochs'), {}, {}
for n = 0, 1 do
  if state.markDay >= day - 1 then markKeys[#markKeys + 1] = 'marks:' .. day - n end
  if state.markMonth >= month - 1 then markKeys[#markKeys + 1] = 'months:' .. month - n end
end
local function markOf(request)
  for _, key in ipairs(markKeys) do marks[request] = marks[request] or call('HGET', P .. key, request) end
  return marks[request]
end
`

/** What is noted of the realms and of the resources of trees: both list the claims of their live entries, in one form. */
export const PLACES = `
local CLAIM = '(%S+) (%d+)(%a) '
local realms, changedRealms, changedTrees = {}, {}, {}
local function realmOf(name)
  local realm = realms[name]
  if not realm then
    local wall, fence, tickets, claims = match(live[name] or '', '^(%d+) (%d+) (%d+) (.*)$')
    realm = {
      wall = tonumber(wall) or 0,
      fence = math.max(tonumber(fence) or 0, state.floor),
      tickets = tonumber(tickets) or 0,
      claims = claims or '',
    }
    realms[name] = realm
  end
  return realm
end
local function claimsBelow(resource)
  local prefix = sub(resource, -1) == '/' and resource or resource .. '/'
  local names, lists = {}, {}
  -- '0' is the character after '/'.
  for _, name in ipairs(call('ZRANGEBYLEX', P .. 'tree', '(' .. prefix, '(' .. sub(prefix, 1, -2) .. '0')) do
    names[name] = true
  end
  for name in pairs(changedTrees) do
    if #name > #prefix and sub(name, 1, #prefix) == prefix then names[name] = true end
  end
  for name in pairs(names) do lists[#lists + 1] = realmOf(name).claims end
  return table.concat(lists)
end
local function claimsAt(place)
  local claims = realmOf(place.resource or place.realm).claims
  for _, name in ipairs(place.above or {}) do
    for id, number, extent in string.gmatch(realmOf(name).claims, CLAIM) do
      if extent == 's' then claims = claims .. id .. ' ' .. number .. extent .. ' ' end
    end
  end
  return place.subtree and claims .. claimsBelow(place.resource) or claims
end
`

/**
 * Whether all is as an attempt expects. `place.ownVersion` and `write.expected` are versions. `claims` and `behind` are texts
 * of claims: for each live entry its id, its claim number, and `s` for a subtree or `e`. A new claim is appended and a
 * changed one keeps its position, so for a flat resource the text ends with the claim that was filed last. `behind` is sent
 * for no other: the text of a tree is put together from several lists.
 */
const COMPARE = `
local function versionOf(id)
  if live[id] then return match(live[id], '^%d+') end
  local ended = knownOf(id).ended
  local event = ended and eventAt(ended)
  return event and select(2, wordsOf(event)) or '0'
end
-- The lease that a request has had an effect on, and the type of that effect.
local function priorOf(request)
  local position = knownOf(request).prior
  local event = position and position > 0 and eventAt(position)
  if event then
    local id, _, kind = wordsOf(event)
    if isInLedger(id, position) then return id, kind end
  end
  local id, kind, keepUntil = match(markOf(request) or '', '^(%S+) (%a+) (%d+)$')
  if id and keepUntil * 1000 >= now then return id, kind end
end
local function claimSet(claims)
  local set = {}
  for claim in string.gmatch(claims, '%S+ %S+ ') do set[claim] = true end
  return set
end
-- Claims in another order are the same claims.
local function areSame(expected, claims)
  if expected == claims then return true end
  if #expected ~= #claims then return false end
  local set = claimSet(expected)
  for claim in string.gmatch(claims, '%S+ %S+ ') do
    if not set[claim] then return false end
  end
  return true
end
-- An attempt that depends on its own entry alone and appends no event is ordered by that entry's version, so its wall time is
-- not compared.
local function comparesWallTime(place, attempt)
  return place.claims or place.behind or #attempt.events + #attempt.epochs > 0
end
local function isAsExpected(place, attempt)
  if versionOf(place.id) ~= place.ownVersion then return false end
  if comparesWallTime(place, attempt) and realmOf(place.realm).wall > attempt.wallMs then return false end
  if place.request and (priorOf(place.request) ~= nil) ~= (place.hasPrior == true) then return false end
  if place.epoch and tonumber(epochs[place.resource or place.realm] or 0) ~= place.epoch then return false end
  if place.behind then return sub(claimsAt(place), -#place.behind) == place.behind end
  -- No claims at all are the empty text, which is true in Lua.
  return not place.claims or areSame(place.claims, claimsAt(place))
end
-- Those that it would write and that have another version than it expects.
local function movedEntries(attempt)
  local moved = {}
  for _, write in ipairs(attempt.writes) do
    if versionOf(write.id) ~= write.expected then moved[write.id] = true end
  end
  return moved
end
local function holds(attempt)
  if not isCurrent or now < attempt.fromUs or now >= attempt.beforeUs then return false end
  for _, place in ipairs(attempt.places) do
    if not isAsExpected(place, attempt) then return false end
  end
  return next(movedEntries(attempt)) == nil
end
`

/**
 * What is at a place, for an attempt that has missed. An entry that the attempt has listed is shown only if its claim number
 * differs, or if the attempt would write it and its version differs; `gone` names the listed entries that are not there any more.
 * An attempt that depends on the last claim alone is shown what came after that one. Mostly an attempt in a long queue misses
 * because it was late, or because its own ticket has ended: it must not be sent the queue for that.
 */
const VIEW = `
local function viewOf(place, moved)
  local realm = realmOf(place.realm)
  local claims = (place.claims or place.behind) and claimsAt(place) or ''
  local isPartial = place.behind and find(claims, place.behind, 1, true)
  if isPartial then claims = sub(claims, isPartial + #place.behind) end
  local leaseId, kind
  if place.request then leaseId, kind = priorOf(place.request) end
  local expected = {}
  for id, number, extent in string.gmatch(place.claims or '', CLAIM) do expected[id] = number .. extent end
  local ids, seen = {}, {}
  local function add(id)
    if id and not seen[id] then ids[#ids + 1] = id end
    if id then seen[id] = true end
  end
  for id, number, extent in string.gmatch(claims, CLAIM) do
    if moved[id] or expected[id] ~= number .. extent then add(id) end
    expected[id] = nil
  end
  add(place.id)
  add(leaseId)
  -- False: all that is there is shown, and what is not shown is not there.
  local gone = (place.claims or isPartial) and {} or false
  for id in pairs(expected) do gone[#gone + 1] = id end
  local epoch = tonumber(epochs[place.resource or place.realm] or 0)
  return show({ realm.fence, realm.wall, realm.tickets, epoch, leaseId or '', kind or '', isPartial and 1 or 0, gone }, ids)
end
`

/**
 * Notes what an attempt changes. New fences, those from \`fences.first\` on, are moved up together where another attempt has
 * taken them meanwhile. Events come first: an entry whose events are recorded was created at the position of the first.
 */
const APPLY = `
-- Positions of events: at least the time in microseconds, and each greater than the last.
local base = math.max(state.last, now - 1)
local count, positions, changedLive, changedKnown = 0, {}, {}, {}
local due, members, changedEpochs = {}, {}, {}
local begun, unrecorded, dayMarks, monthMarks, wakes = {}, {}, {}, {}, {}
-- Of the attempt that is being applied: by how much its new fences move up, and the first of them.
local shift, firstFence = 0, nil
local function shifted(fence)
  return firstFence and fence >= firstFence and fence + shift or fence
end
local function append(event)
  count = count + 1
  local position = base + count
  appended[position] = table.concat({
    event.id,
    event.fence > 0 and int(position - shifted(event.fence)) or '-',
    int(math.floor(position / 1000) - event.atMs),
    event.version or '0',
    event.text,
  }, ' ')
  positions[#positions + 1] = position
  if event.begins then begun[event.id] = position end
  if event.begins or event.version then
    local record = knownOf(event.id)
    if event.version then record.first = firstOf(event.id) or begun[event.id] or position end
    record.ended = event.version and position
    changedKnown[event.id] = record.first ~= nil or nil
  end
  if event.request then
    knownOf(event.request).prior = position
    changedKnown[event.request] = true
  end
end
local function setMember(key, id, isIn)
  members[key] = members[key] or {}
  members[key][id] = isIn
end
local function updateRealmList(write)
  local realm = realmOf(write.listedAt)
  local from = find(realm.claims, write.id, 1, true) or #realm.claims + 1
  local to = find(realm.claims, ' ', from + #write.id + 1, true) or #realm.claims
  local item = write.listedEntry and write.id .. ' ' .. write.listedEntry .. ' ' or ''
  realm.claims = sub(realm.claims, 1, from - 1) .. item .. sub(realm.claims, to + 1)
  local changed = write.isTree and changedTrees or changedRealms
  changed[write.listedAt] = true
end
local function createdOf(write)
  if live[write.id] then return match(live[write.id], '^%d+ %d+ %d+ %d+ (%d+)') end
  if begun[write.id] then return int(begun[write.id]) end
  count = count + 1
  unrecorded[write.id] = base + count
  return int(base + count)
end
local function writeEntry(write)
  local id = write.id
  if write.text then
    live[id] = write.head .. ' ' .. int(shifted(write.fence)) .. ' ' .. write.untilUs .. ' '
      .. createdOf(write) .. ' ' .. write.text
  else
    live[id] = false
    if not write.isRecorded then unrecorded[id] = false end
    if write.isGone then
      local record = knownOf(id)
      record.first, record.ended = nil, nil
      changedKnown[id] = true
    end
  end
  changedLive[id] = true
  if write.listedAt then updateRealmList(write) end
  if write.due ~= nil then due[id] = write.due end
  if write.tickets then
    local realm = realmOf(write.realm)
    realm.tickets = math.max(0, realm.tickets + write.tickets)
    changedRealms[write.realm] = true
  end
  if write.leaves then setMember('s:' .. write.leaves, id, false) end
  if write.joins then setMember('s:' .. write.joins, id, true) end
  if write.holder then setMember('h:' .. write.holder, id, write.text ~= nil) end
end
local function apply(attempt)
  local lastFence = attempt.fences and attempt.fences.last + shift or 0
  for _, place in ipairs(attempt.places) do
    local realm = realmOf(place.realm)
    realm.wall, realm.fence = math.max(realm.wall, attempt.wallMs), math.max(realm.fence, lastFence)
    changedRealms[place.realm] = true
  end
  for _, event in ipairs(attempt.events) do append(event) end
  for _, write in ipairs(attempt.writes) do writeEntry(write) end
  for _, mark in ipairs(attempt.marks) do
    marks[mark.request] = mark.text
    local into = mark.isLong and monthMarks or dayMarks
    into[#into + 1] = mark.request
    into[#into + 1] = mark.text
  end
  for _, change in ipairs(attempt.epochs) do
    epochs[change.resource] = change.epoch
    changedEpochs[change.resource] = change.epoch
  end
  for _, wake in ipairs(attempt.wakes) do wakes[#wakes + 1] = wake end
end
local function shiftOf(attempt)
  local most = 0
  for _, place in ipairs(attempt.fences and attempt.places or {}) do
    most = math.max(most, realmOf(place.realm).fence + 1 - attempt.fences.first)
  end
  return most
end
local isChanged = false
for n, attempt in ipairs(attempts) do
  -- A list of views for a miss; how far its fences were moved, if at all, for a commit.
  local reply
  if not holds(attempt) then
    local moved = movedEntries(attempt)
    reply = {}
    for m, place in ipairs(attempt.places) do reply[m] = viewOf(place, moved) end
  elseif #attempt.writes > 0 then
    firstFence, shift = attempt.fences and attempt.fences.first, shiftOf(attempt)
    apply(attempt)
    isChanged = true
    reply = shift > 0 and shift or nil
  end
  if reply then
    answer[#answer + 1] = n
    answer[#answer + 1] = reply
  end
end
if not isChanged then return answer end
`

const FLUSH = `
-- PUBLISH comes first: a script is not rolled back, so a user who may not publish must fail before the first write. Whom it
-- wakes can ask nothing before the script has ended.
if #positions > 0 then call('PUBLISH', group.ledgerChannel, group.sender .. ' ledger') end
for _, wake in ipairs(wakes) do call('PUBLISH', wake.channel, group.sender .. ' ' .. wake.leaseId) end
state.last, state.high = base + count, now
local function writeMarks(key, field, period, list, keepMs)
  if #list == 0 then return end
  send('HSET', key .. period, list)
  if state[field] ~= period then call('PEXPIRE', P .. key .. period, keepMs) end
  state[field] = period
end
writeMarks('marks:', 'markDay', day, dayMarks, ${3 * DAY_MS})
writeMarks('months:', 'markMonth', month, monthMarks, ${3 * MONTH_DAYS * DAY_MS})
local function realmText(realm)
  return int(realm.wall) .. ' ' .. int(realm.fence) .. ' ' .. realm.tickets .. ' ' .. realm.claims
end
local changed, trees = { state = stateText() }, {}
for id in pairs(changedLive) do changed[id] = live[id] end
for name in pairs(changedRealms) do changed[name] = realmText(realms[name]) end
for name in pairs(changedTrees) do
  local isEmpty = realms[name].claims == ''
  changed[name] = not isEmpty and realmText(realms[name])
  trees[name] = not isEmpty and 0
end
writeAll('hash', 'live', changed)
for id in pairs(changedKnown) do changedKnown[id] = knownText(knownOf(id)) end
writeAll('hash', 'known', changedKnown)
writeAll('hash', 'epochs', changedEpochs)
writeAll('sorted', 'due', due)
writeAll('sorted', 'tree', trees)
writeAll('sorted', 'unrecorded', unrecorded)
for key, ids in pairs(members) do writeAll('set', key, ids) end
local n = 1
while n <= #positions do
  local from, row = positions[n], {}
  while n <= #positions and positions[n] - from < ${EVENTS_PER_ROW} do
    row[#row + 1] = int(positions[n] - from)
    row[#row + 1] = appended[positions[n]]
    n = n + 1
  end
  call('XADD', P .. 'ledger', int(from), unpack(row))
end
return answer
`

const TEXT = `${READ}${PLACES}${COMPARE}${VIEW}${APPLY}${FLUSH}`

export const COMMIT_SCRIPT: Script = scriptOf('writes', TEXT)
/** The same text for attempts that only read: it runs wherever something can be read. */
export const VIEW_SCRIPT: Script = scriptOf('reads', TEXT)
