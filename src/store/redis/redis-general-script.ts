/**
 * The part of the script of attempts that carries out any attempt: of any number of places, with whatever is written.
 * What most attempts are, redis-plain-script.ts does faster.
 */

/**
 * An attempt is one argument that says all that has a width, and then what has none, in the same order. That one says:
 * times ('=' those of the group), fences ('-' none), counts of places, writes, events, marks, epochs, wakes and of its
 * own arguments [3 each]; fences[32]; times[45]; then
 *
 *     place   shape depth hasPrior, id realm request [3 each], own version[11], epoch[16]; claims if listed, or the last
 *             of them (depth t); resource
 *             unless flat
 *     write   mode shape hasBody live recorded tickets, id realm holder session before [3 each], version[11]; head,
 *             body if any, score unless it keeps its place, resource unless flat
 *     mark    request[3] isLong; text
 *     epoch   shape realm[3]; resource unless flat, epoch[16]
 *     wake    channel, lease
 */
const CHECK = `
  local ownTimes, ownFences, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,
    a18, a19, a20, a21 = byte(c, 1, 23)
  local places = (a1 - 33) * 8100 + (a2 - 33) * 90 + a3 - 33
  local writes = (a4 - 33) * 8100 + (a5 - 33) * 90 + a6 - 33
  local start, lacks, shift = at, false, 0
  at = at + (a19 - 33) * 8100 + (a20 - 33) * 90 + a21 - 33
  local p, from, before, wall = 24, groupFrom, groupBefore, groupWall
  local firstFence, lastFence
  if ownFences == 102 then
    firstFence, lastFence = sub(c, p, p + 15), sub(c, p + 16, p + 31)
    p = p + 32
  end
  if ownTimes == 33 then
    from, before = tonumber(sub(c, p, p + 15)), tonumber(sub(c, p + 16, p + 31))
    wall = sub(c, p + 32, p + 44)
    p = p + 45
  end
  local holds = isCurrent and now >= from and now < before
  local placesAt, argumentsAt = p, x
  for m = 1, holds and places or 0 do
    local shape, depth, hasPrior, i1, i2, i3, r1, r2, r3, q1, q2, q3 = byte(c, p, p + 11)
    local head = V[(i1 - 33) * 8100 + (i2 - 33) * 90 + i3 - 33]
    local realm = V[(r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33] or NO_REALM
    local q = (q1 - 33) * 8100 + (q2 - 33) * 90 + q3 - 33
    local mark = q > 0 and (marked[q] or today[q] or yesterday[q] or (long and (long[q] or longer[q])))
    local claims
    if depth == 108 or depth == 116 then
      x = x + 1
      claims = A[x]
    end
    -- Equal in length, they are the same if one begins with the other, which is seen without making a string.
    local isOther = depth == 108 and not (#realm == 50 + #claims and find(realm, claims, 51, true))
    if not more and (shape ~= 102 or mark or isOther) then
      lacks = true
      break
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
      elseif depth == 116 then
        holds = sub(realm, -47) == claims
      elseif isOther then
        holds = more.isSame(claims, sub(realm, 51))
      end
    else
      x = x + 1
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
    lacks = lacks or not more and byte(c, p + 1) ~= 102
    -- Blank for the entry of a place, which has been looked at.
    if byte(c, p + 21) ~= 32 then
      local i1, i2, i3 = byte(c, p + 6, p + 8)
      local head = V[(i1 - 33) * 8100 + (i2 - 33) * 90 + i3 - 33]
      if (head and sub(head, 1, 11) or NONE11) ~= sub(c, p + 21, p + 31) then
        holds = false
        break
      end
    end
    p = p + 32
  end
  for m = 0, holds and firstFence and places - 1 or -1 do
    local r1, r2, r3 = byte(c, placesAt + m * 39 + 6, placesAt + m * 39 + 8)
    local realm = V[(r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33]
    local taken = realm and tonumber(sub(realm, 14, 29)) or 0
    if taken >= tonumber(firstFence) + shift then shift = taken + 1 - tonumber(firstFence) end
  end
  if not more and (lacks or not holds or shift > 0) then
    wantsMore, n, at = true, n - 1, start
  elseif not holds then
    answer[told + 1], answer[told + 2] = n, more.views(c, placesAt, argumentsAt, places)
    told = told + 2
  elseif writes > 0 then
`

/** Notes what an attempt writes, and lets the attempts after it see that. A fence is moved on where others had it. */
const APPLY = `
    isChanged = true
    if shift > 0 then lastFence = format('%016d', tonumber(lastFence) + shift) end
    local f1, f2, f3 = byte(c, placesAt + 6, placesAt + 8)
    p = writesAt
    for m = 1, writes do
      local mode, shape, hasBody, live, recorded, tickets, i1, i2, i3, r1, r2, r3, h1, h2, h3, s1, s2, s3,
        o1, o2, o3 = byte(c, p, p + 20)
      local i = (i1 - 33) * 8100 + (i2 - 33) * 90 + i3 - 33
      local id, before, head = A[fields + i], V[i], A[x + 1]
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
        putBodies = putBodies or {}
        putBodies[bodiesPut + 1], putBodies[bodiesPut + 2] = id, A[x]
        bodiesPut = bodiesPut + 2
      end
      if mode == 120 then
        gone = gone or {}
        gone[#gone + 1] = id
        head = false
      end
      V[i] = head
      if not touched[i] then
        dirty[dirtyCount + 1], dirtyCount, touched[i] = i, dirtyCount + 1, true
      end
      if mode ~= 107 then
        x = x + 1
        dated[datedCount + 1], dated[datedCount + 2] = A[x], id
        datedCount = datedCount + 2
        if recorded == 117 and mode == 110 then
          listed = listed or {}
          listed[#listed + 1] = format('%016d', base + created)
          listed[#listed + 1] = id
        elseif recorded == 117 and mode == 120 then
          unlisted = unlisted or {}
          unlisted[#unlisted + 1] = id
        end
        local isLive = live == 43 or live == 61
        local item = isLive and id .. sub(head, 12, 22) or ''
        local r = (r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33
        local realm = V[r] or NO_REALM
        local top, count = sub(realm, 1, 45), sub(realm, 46, 50)
        if r1 == f1 and r2 == f2 and r3 == f3 then
          top = wall .. (lastFence or sub(realm, 14, 29)) .. sub(realm, 30, 45)
        end
        if tickets ~= 48 then count = format('%05d', math.max(0, tonumber(count) + tickets - 48)) end
        if shape == 102 then
          local from = #realm > 50 and find(realm, id, 51, true) or #realm + 1
          realm = top .. count .. sub(realm, 51, from - 1) .. item .. sub(realm, from + 47)
          if #realm == 50 and sub(realm, 30, 45) == NONE16 then
            idleCount = idleCount + 1
            idle[idleCount] = A[fields + r]
          end
        else
          realm = top .. count
          x = x + 1
          trees = trees or more.treesOf()
          trees.list(A[x], id, item, shape == 115)
        end
        V[r] = realm
        if not touched[r] then
          dirty[dirtyCount + 1], dirtyCount, touched[r] = r, dirtyCount + 1, true
        end
        local h, s, o = (h1 - 33) * 8100 + (h2 - 33) * 90 + h3 - 33,
          (s1 - 33) * 8100 + (s2 - 33) * 90 + s3 - 33, (o1 - 33) * 8100 + (o2 - 33) * 90 + o3 - 33
        if live == 43 then
          if joinedCount == 0 then joined, joinedHolder, joinedSession = {}, {}, {} end
          joinedCount = joinedCount + 1
          joined[joinedCount], joinedHolder[joinedCount], joinedSession[joinedCount] = id, h, s
        elseif live == 45 then
          if leftCount == 0 then left, leftHolder, leftSession = {}, {}, {} end
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
      if shift > 0 then event = more.moved(event, 53, firstFence, shift) end
      ledger[events + m] = event
    end
    local lines = (a7 - 33) * 8100 + (a8 - 33) * 90 + a9 - 33
    events, x = events + lines, x + lines
    for m = 1, (a10 - 33) * 8100 + (a11 - 33) * 90 + a12 - 33 do
      local q1, q2, q3, isLong = byte(c, p, p + 3)
      local q = (q1 - 33) * 8100 + (q2 - 33) * 90 + q3 - 33
      x, p = x + 1, p + 4
      marked[q] = A[x]
      if isLong == 49 then
        longMarks = longMarks or {}
        longMarks[#longMarks + 1] = A[requests + q]
        longMarks[#longMarks + 1] = A[x]
      else
        dayMarks[dayMarksCount + 1], dayMarks[dayMarksCount + 2] = A[requests + q], A[x]
        dayMarksCount = dayMarksCount + 2
      end
    end
    for m = 0, places - 1 do
      local r1, r2, r3 = byte(c, placesAt + m * 39 + 6, placesAt + m * 39 + 8)
      local r = (r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33
      local realm = V[r] or NO_REALM
      if sub(realm, 1, 13) ~= wall or (firstFence and sub(realm, 14, 29) ~= lastFence) then
        V[r] = wall .. (firstFence and lastFence .. sub(realm, 30) or sub(realm, 14))
        if not touched[r] then
          dirty[dirtyCount + 1], dirtyCount, touched[r] = r, dirtyCount + 1, true
        end
      end
    end
    for m = 1, (a13 - 33) * 8100 + (a14 - 33) * 90 + a15 - 33 do
      local shape, r1, r2, r3 = byte(c, p, p + 3)
      local r = (r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33
      x, p = x + 1, p + 4
      if shape == 102 then
        local realm = V[r] or NO_REALM
        V[r] = sub(realm, 1, 29) .. A[x] .. sub(realm, 46)
        if not touched[r] then
          dirty[dirtyCount + 1], dirtyCount, touched[r] = r, dirtyCount + 1, true
        end
      else
        trees = trees or more.treesOf()
        trees.advance(A[x], A[x + 1])
        x = x + 1
      end
    end
    for m = 1, (a16 - 33) * 8100 + (a17 - 33) * 90 + a18 - 33 do
      news = news or {}
      news[#news + 1] = A[x + 1]
      news[#news + 1] = A[3] .. ' ' .. A[x + 2]
      x = x + 2
    end
    if shift > 0 then
      answer[told + 1], answer[told + 2] = n, shift
      told = told + 2
    end
  end
`

export const GENERAL: string = `${CHECK}${APPLY}`
