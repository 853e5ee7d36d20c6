/**
 * What the script of attempts does for trees: claims above and below a resource, and epochs. Few groups have any, so
 * all of it is made when it is first needed.
 */

/** Claims in whatever order; `splice` puts, replaces or takes out the claim of one entry. */
const CLAIMS = `
local function isSame(expected, list)
  if expected == list then return true end
  if #expected ~= #list then return false end
  for from = 1, #list, 47 do
    local place = find(expected, sub(list, from, from + 46), 1, true)
    if not place or place % 47 ~= 1 then return false end
  end
  return true
end
`

export const TREES: string = `${CLAIMS}
local function treesOf()
  local C, U, T, O = P .. 'c', P .. 'u', P .. 't', P .. 'o'
  local caches, changed, grown = { [C] = {}, [U] = {}, [O] = {} }, { [C] = {}, [U] = {}, [O] = {} }, {}
  local function read(key, name)
    local value = caches[key][name]
    if value == nil then
      value = call('HGET', key, name) or ''
      caches[key][name] = value
    end
    return value
  end
  local function write(key, name, value)
    caches[key][name] = value
    changed[key][name] = true
  end
  local function splice(key, name, id, item)
    local list = read(key, name)
    local from = find(list, id, 1, true)
    if from then
      list = sub(list, 1, from - 1) .. item .. sub(list, from + 47)
    else
      list = list .. item
    end
    write(key, name, list)
    return list ~= ''
  end
  local function above(resource)
    local list, name = '', resource
    local root = find(resource, ':', 1, true) + 1
    while #name > root do
      local slash = #name
      while sub(name, slash, slash) ~= '/' do slash = slash - 1 end
      name = sub(name, 1, slash == root and root or slash - 1)
      list = list .. read(U, name)
    end
    return list
  end
  local function below(resource)
    local stem = sub(resource, -1) == '/' and resource or resource .. '/'
    local found = {}
    for _, name in ipairs(call('ZRANGEBYLEX', T, '(' .. stem, '(' .. sub(stem, 1, -2) .. '0')) do
      found[name] = true
    end
    for name, some in pairs(grown) do
      if #name > #stem and sub(name, 1, #stem) == stem then found[name] = some end
    end
    local wanted, lists = {}, {}
    for name, some in pairs(found) do
      if some and caches[C][name] == nil then wanted[#wanted + 1] = name end
    end
    for first = 1, #wanted, 4000 do
      local last = math.min(first + 3999, #wanted)
      local values = call('HMGET', C, unpack(wanted, first, last))
      for n = first, last do caches[C][wanted[n]] = values[n - first + 1] or '' end
    end
    for name, some in pairs(found) do
      if some then lists[#lists + 1] = read(C, name) end
    end
    return table.concat(lists)
  end
  return {
    epoch = function(resource)
      local epoch = read(O, resource)
      return epoch == '' and NONE16 or epoch
    end,
    advance = function(resource, epoch) write(O, resource, epoch) end,
    claims = function(resource, shape)
      local list = read(C, resource) .. above(resource)
      return shape == 115 and list .. below(resource) or list
    end,
    list = function(resource, id, item, isSubtree)
      grown[resource] = splice(C, resource, id, item)
      splice(U, resource, id, isSubtree and item or '')
    end,
    flush = function()
      for key, members in pairs(changed) do
        for name in pairs(members) do
          local value = caches[key][name]
          if value == '' then call('HDEL', key, name) else call('HSET', key, name, value) end
        end
      end
      for name, some in pairs(grown) do
        if some then call('ZADD', T, 0, name) else call('ZREM', T, name) end
      end
    end,
  }
end
`
