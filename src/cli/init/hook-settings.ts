/**
 * The hooks in a client's settings: which of them are Tenure's, and the text with them and without. All clients have an object
 * `hooks` with a list for each event; in some of them the entries of the list are groups with a list `hooks` of their own.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  additionEdits,
  applyEdits,
  JsonTextError,
  member,
  readJsonText,
  removalEdits,
  valueOf,
  wasEmpty,
  type Container,
  type Edit,
  type Item,
  type Node,
} from './json-text.ts'

/** What is to be in the list of each event. */
export type HookEntries = Readonly<Record<string, unknown>>

export type IsOwnHook = (hook: Readonly<Record<string, unknown>>) => boolean

/** The text with these entries, and no others of Tenure; the same text if they are there. */
export function withEntries(text: string, entries: HookEntries, isOwn: IsOwnHook): string {
  if (hasEntries(text, entries, isOwn)) return text
  const base = withoutEntries(text, isOwn)
  const root = rootOf(base)
  const hooks = member(root, 'hooks')
  if (hooks === null) {
    const lists = Object.entries(entries).map(([event, entry]) => [event, [entry]])
    const addition = { key: 'hooks', value: Object.fromEntries(lists) as unknown }
    return applyEdits(base, additionEdits(base, root, [addition]))
  }
  const object = containerOf(hooks, 'object')
  const edits: Edit[] = []
  const lists: { readonly key: string; readonly value: unknown }[] = []
  for (const [event, entry] of Object.entries(entries)) {
    const list = member(object, event)
    if (list === null) lists.push({ key: event, value: [entry] })
    else {
      const addition = { key: null, value: entry }
      edits.push(...additionEdits(base, containerOf(list, 'array'), [addition]))
    }
  }
  return applyEdits(base, [...edits, ...additionEdits(base, object, lists)])
}

/** The text without any entry of Tenure, and without the lists that have nothing else. */
export function withoutEntries(text: string, isOwn: IsOwnHook): string {
  const root = rootOf(text)
  const hooks = member(root, 'hooks')
  if (hooks === null) return text
  const swept = sweep(text, containerOf(hooks, 'object'), (list) => {
    return sweep(text, containerOf(list, 'array'), (entry) => sweepEntry(text, entry, isOwn))
  })
  return applyEdits(text, swept ?? removalEdits(text, root, (item) => item === hooks))
}

/** The hooks of Tenure that the settings have, by their event. */
export function ownHooks(
  text: string,
  isOwn: IsOwnHook,
): readonly { readonly event: string; readonly hook: Readonly<Record<string, unknown>> }[] {
  const hooks = member(rootOf(text), 'hooks')
  if (hooks === null || hooks.node.kind !== 'object') return []
  return hooks.node.items.flatMap(({ key, node }) => {
    const entries = node.kind === 'array' ? node.items : []
    const found = entries.flatMap((entry) => hooksIn(entry.node).filter((one) => isOwn(one)))
    return found.map((hook) => ({ event: key ?? '', hook }))
  })
}

function hasEntries(text: string, entries: HookEntries, isOwn: IsOwnHook): boolean {
  const wanted = Object.entries(entries)
  if (ownHooks(text, isOwn).length !== wanted.length) return false
  const hooks = member(rootOf(text), 'hooks')
  return wanted.every(([event, entry]) => {
    const list = hooks === null ? null : member(hooks.node, event)
    const values = list === null ? [] : valueOf(list.node)
    return Array.isArray(values) && values.some((value) => isDeepStrictEqual(value, entry))
  })
}

/** What is to be taken out below an item; null for all of it. */
type Sweep = readonly Edit[] | null

/** A container that has nothing but what is taken out goes as well, unless it was there before. */
function sweep(text: string, container: Container, below: (item: Item) => Sweep): Sweep {
  const results = new Map(container.items.map((item) => [item, below(item)]))
  const isRemoved = (item: Item): boolean => results.get(item) === null
  const isAll = container.items.length > 0 && container.items.every(isRemoved)
  if (isAll && !wasEmpty(container)) return null
  const kept = [...results.values()].flatMap((edits) => edits ?? [])
  return [...removalEdits(text, container, isRemoved), ...kept]
}

/** A group that has no other hooks goes as a whole: nothing is ever put into one that is there. */
function sweepEntry(text: string, { node }: Item, isOwn: IsOwnHook): Sweep {
  const group = member(node, 'hooks')
  if (group === null || group.node.kind !== 'array') return isOwn(objectOf(node)) ? null : []
  const isRemoved = (hook: Item): boolean => isOwn(objectOf(hook.node))
  const { items } = group.node
  if (items.length > 0 && items.every(isRemoved)) return null
  return removalEdits(text, group.node, isRemoved)
}

function hooksIn(entry: Node): readonly Readonly<Record<string, unknown>>[] {
  const group = member(entry, 'hooks')
  if (group === null || group.node.kind !== 'array') return [objectOf(entry)]
  return group.node.items.map((item) => objectOf(item.node))
}

function objectOf(node: Node): Readonly<Record<string, unknown>> {
  return node.kind === 'object' ? (valueOf(node) as Readonly<Record<string, unknown>>) : {}
}

function rootOf(text: string): Container {
  const root = readJsonText(text)
  if (root.kind === 'object') return root
  throw new JsonTextError('expected an object')
}

function containerOf({ key, node }: Item, kind: Container['kind']): Container {
  if (node.kind === kind) return node
  throw new JsonTextError(`${key} must be ${kind === 'object' ? 'an object' : 'a list'}`)
}
