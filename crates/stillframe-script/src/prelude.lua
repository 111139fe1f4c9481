-- What scripts see of the libraries, beside those of Lua.

local rust, lift, pcall, caught_by, locate = ...
local error, tostring, xpcall = error, tostring, xpcall

for name, members in pairs(rust) do
    local library = _G[name] or {}
    for key, value in pairs(members) do
        library[key] = type(value) == 'function' and lift(value) or value
    end
    _G[name] = library
end

_G.pcall, _G.xpcall = pcall, caught_by

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
setmetatable(_G, { __index = frame, __metatable = false })

-- Runs a script: whether it succeeded, then what it returned, or its error with the position.
local function run(script)
    return xpcall(script, locate)
end

-- Calls a function of a library.
local function call(callback, keys, args)
    return xpcall(function() return callback(keys, args) end, locate)
end

return run, frame, missing, call
