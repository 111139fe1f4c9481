-- What scripts see of the libraries, beside those of Lua.

local rust, direct, lift, pcall, caught_by, request, request_safely = ...
local error, tostring = error, tostring

for name, members in pairs(rust) do
    local library = _G[name] or {}
    for key, value in pairs(members) do
        library[key] = type(value) == 'function' and lift(value) or value
    end
    _G[name] = library
end

for name, members in pairs(direct) do
    for key, value in pairs(members) do
        _G[name][key] = value
    end
end

_G.pcall, _G.xpcall = pcall, caught_by
redis.call, redis.pcall = request, request_safely
server = redis -- as in Valkey

for _, name in ipairs {
    'print', 'dofile', 'loadfile', 'setfenv', 'getfenv', 'newproxy', 'module', 'require',
} do
    _G[name] = nil
end

-- `KEYS` and `ARGV` of the script that runs. The table is out of reach for scripts.
local missing = {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
    __metatable = false,
}
local frame = setmetatable({}, missing)
setmetatable(_G, { __index = frame, __metatable = {} }) -- who asks for it gets an empty table

return frame, missing
