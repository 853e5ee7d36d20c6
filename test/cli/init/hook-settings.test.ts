/** Hooks put into settings that people wrote, and taken out again: all else stays as it is. */
import { describe, expect, it } from 'vitest'
import {
  ownHooks,
  withEntries,
  withoutEntries,
  type IsOwnHook,
} from '../../../src/cli/init/hook-settings.ts'
import { fc } from '../../fast-check.ts'
import { readJsonText, valueOf } from '../../../src/cli/init/json-text.ts'

const HOOK = { command: 'tenure' }
const isOwn: IsOwnHook = ({ command }) => command === HOOK.command
const GROUP = { matcher: 'Edit', hooks: [HOOK] }
const ENTRIES = { Pre: GROUP, Post: GROUP }

function install(text: string): string {
  return withEntries(text, ENTRIES, isOwn)
}

function remove(text: string): string {
  return withoutEntries(text, isOwn)
}

describe('settings with the hooks put in', () => {
  const group =
    '{\n        "matcher": "Edit",\n        "hooks": [\n          {\n            "command": "tenure"\n          }\n        ]\n      }'
  it.each([
    [
      'are a member behind the others',
      '{\n  "a": 1\n}\n',
      `{\n  "a": 1,\n  "hooks": {\n    "Pre": [\n      ${group}\n    ],\n    "Post": [\n      ${group}\n    ]\n  }\n}\n`,
    ],
    [
      'go behind the comment of the last one, and keep a trailing comma',
      '{\n  "hooks": {\n    "Pre": [\n      {}, // mine\n    ],\n    "Post": [\n      {} /* theirs */\n    ]\n  }\n}',
      `{\n  "hooks": {\n    "Pre": [\n      {}, // mine\n      ${group},\n    ],\n    "Post": [\n      {}, /* theirs */\n      ${group}\n    ]\n  }\n}`,
    ],
    [
      'go right behind the bracket of what is empty',
      '{\n  "hooks": {\n    "Pre": [],\n    "Post": [ /* none */ ]\n  }\n}',
      `{\n  "hooks": {\n    "Pre": [${group}],\n    "Post": [${group} /* none */ ]\n  }\n}`,
    ],
  ])('%s', (_, before, after) => {
    expect(install(before)).toBe(after)
    expect(install(after)).toBe(after)
    expect(remove(after)).toBe(before)
  })

  it('are laid out as the rest is: line breaks and indentation', () => {
    const before = '\ufeff{\r\n\t"a": {\r\n\t\t"b": 1\r\n\t}\r\n}\r\n'
    const after = install(before)
    expect(after).toContain('\r\n\t"hooks": {\r\n\t\t"Pre": [\r\n\t\t\t{\r\n\t\t\t\t"matcher"')
    expect(after.replaceAll('\r\n', '')).not.toContain('\n')
    expect(remove(after)).toBe(before)
  })

  it('replace older ones of Tenure, and leave those of others in the same group', () => {
    const old =
      '{"hooks":{"Pre":[{"matcher":"x","hooks":[{"command":"other"},{"command":"tenure"}]}],"Stop":[{"command":"tenure"}]}}'
    const after = install(old)
    expect(valueOf(readJsonText(after))).toEqual({
      hooks: {
        Pre: [{ matcher: 'x', hooks: [{ command: 'other' }] }, GROUP],
        Stop: [],
        Post: [GROUP],
      },
    })
    expect(install(after)).toBe(after)
    expect(ownHooks(after, isOwn).map(({ event }) => event)).toEqual(['Pre', 'Post'])
  })

  it('are found again after somebody has put their own behind them', () => {
    const before = '{\n  "hooks": {\n    "Pre": [\n      {"command": "a"}\n    ]\n  }\n}\n'
    const more = install(before).replace(/\n {4}\],\n {4}"Post"/, ',\n      {"command": "b"}$&')
    expect(more).not.toBe(install(before))
    expect(install(more)).toBe(more)
    expect(remove(more)).toBe(before.replace('\n    ]', ',\n      {"command": "b"}\n    ]'))
  })

  it.each([
    ['line 1: expected a value, got the end', ''],
    ['line 1: expected , or }, got the end', '{"a": 1'],
    ['line 1: expected , or }, got "\\""', '{"a": 1 "b": 2}'],
    ['line 2: expected a key, got "a"', '{\n a: 1}'],
    ['line 1: expected a value, got "0"', '{"a": 01}'],
    ['line 1: expected a string, got "\\""', '{"a": "\\x"}'],
    ['line 1: expected a value, got ","', '{"a": [,]}'],
    ['line 1: expected nothing more, got "{"', '{} {}'],
    ['line 1: expected nothing more, got "/"', '{} /* open'],
    ['expected an object', '[]'],
    ['hooks must be an object', '{"hooks": []}'],
    ['Pre must be a list', '{"hooks": {"Pre": {}}}'],
    ['line 1: expected at most 200 levels, got "["', '['.repeat(5_000)],
  ])('are refused, %#: %s', (message, text) => {
    expect(() => install(text)).toThrow(message)
    expect(() => remove(text)).toThrow(message)
  })
})

/** Space and comments between two tokens. */
const gap = fc.constantFrom(
  '',
  '',
  ' ',
  '\n',
  '\n  ',
  '\t',
  ' /* c */ ',
  ' // c\n',
  '\r\n    ',
  '/*\n*/',
)
const gaps = fc.array(gap, { minLength: 12, maxLength: 12 })

/** A value as somebody may have written it. */
const { value } = fc.letrec<{ value: string; list: string; object: string; leaf: string }>(
  (tie) => ({
    leaf: fc.json({ maxDepth: 0 }),
    list: fc
      .tuple(fc.array(tie('value'), { maxLength: 3 }), gaps, fc.boolean())
      .map(([items, space, trailing]) => listText(items, space, trailing)),
    object: fc
      .tuple(
        fc.array(fc.tuple(fc.json({ maxDepth: 0 }), tie('value')), { maxLength: 3 }),
        gaps,
        fc.boolean(),
      )
      .map(([members, space, trailing]) => {
        const items = members.map(
          ([key, item], index) =>
            `${JSON.stringify(key)}${space[index]}:${space[index + 3]}${item}`,
        )
        return bracketed('{}', items, { space, trailing })
      }),
    value: fc.oneof({ maxDepth: 3 }, tie('leaf'), tie('list'), tie('object')),
  }),
)

function listText(items: readonly string[], space: readonly string[], trailing: boolean): string {
  return bracketed('[]', items, { space, trailing })
}

function bracketed(
  brackets: string,
  items: readonly string[],
  { space, trailing }: { readonly space: readonly string[]; readonly trailing: boolean },
): string {
  const inner = items
    .map((item, index) => `${space[index + 6]}${item}${space[index + 7]}`)
    .join(',')
  const end = trailing && items.length > 0 ? `,${space[10]}` : (space[11] ?? '')
  return `${brackets[0]}${inner}${end}${brackets[1]}`
}

/** Settings with or without hooks, of which some have the lists that are added to. */
const settings = fc
  .record({
    others: fc.array(fc.tuple(fc.constantFrom('a', 'b', 'é'), value), { maxLength: 2 }),
    hooks: fc.option(
      fc.array(
        fc.tuple(fc.constantFrom('Pre', 'Post', 'Stop'), fc.array(value, { maxLength: 2 })),
        { maxLength: 3 },
      ),
    ),
    space: gaps,
    trailing: fc.boolean(),
    isFirst: fc.boolean(),
  })
  .map(({ others, hooks, space, trailing, isFirst }) => {
    const layout = { space, trailing }
    const lists = (hooks ?? []).map(([event, items]) => {
      return `"${event}"${space[0]}:${space[1]}${listText(items, space, trailing)}`
    })
    const own = hooks === null ? [] : [`"hooks":${space[2]}${bracketed('{}', lists, layout)}`]
    const rest = others.map(([key, item]) => `"${key}":${space[3]}${item}`)
    const members = isFirst ? [...own, ...rest] : [...rest, ...own]
    return `${space[4]}${bracketed('{}', members, layout)}${space[5]}`
  })

describe('whatever somebody wrote', () => {
  it('is byte for byte the same after hooks were put in and taken out', () => {
    fc.assert(
      fc.property(settings, (text) => {
        expect(remove(text)).toBe(text)
        const installed = install(text)
        expect(install(installed)).toBe(installed)
        expect(remove(installed)).toBe(text)
        // Everything that was there is still there, in its order.
        expect(isSubsequence(text, installed)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  it('means the same with hooks, and them', () => {
    fc.assert(
      fc.property(settings, (text) => {
        const before = valueOf(readJsonText(text)) as { hooks?: Record<string, unknown[]> }
        const hooks = { ...before.hooks }
        for (const [event, entry] of Object.entries(ENTRIES)) {
          hooks[event] = [...(hooks[event] ?? []), entry]
        }
        expect(valueOf(readJsonText(install(text)))).toEqual({ ...before, hooks })
      }),
      { numRuns: 300 },
    )
  })
})

function isSubsequence(short: string, long: string): boolean {
  let at = 0
  for (let index = 0; index < long.length; index += 1) if (long[index] === short[at]) at += 1
  return at === short.length
}
