/** The file that tells clients of MCP which servers a project has, and Tenure's server in it. */
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
} from './json-text.ts'
import type { SettingsPlan } from './settings-file.ts'

export const MCP_FILE = '.mcp.json'
const SERVERS = 'mcpServers'
const NAME = 'tenure'

export function mcpPlan([program = '', ...words]: readonly string[]): SettingsPlan {
  const server = { type: 'stdio', command: program, args: [...words, 'mcp'] }
  return {
    file: MCP_FILE,
    made: { [SERVERS]: { [NAME]: server } },
    bare: [{}, { [SERVERS]: {} }],
    add: (text) => withServer(text, server),
    remove: withoutServer,
  }
}

/** How a client starts Tenure's server; null where the settings have none. */
export function mcpCommand(text: string): readonly string[] | null {
  const servers = member(readJsonText(text), SERVERS)
  const found = servers === null ? null : member(servers.node, NAME)
  if (found === null) return null
  const { command, args } = valueOf(found.node) as Readonly<Record<string, unknown>>
  return [command, ...(Array.isArray(args) ? (args as readonly unknown[]) : [])].map(String)
}

function withServer(text: string, server: Readonly<Record<string, unknown>>): string {
  const { root, servers } = readServers(text)
  const own = servers === null ? null : member(servers, NAME)
  if (own !== null && isDeepStrictEqual(valueOf(own.node), server)) return text
  if (own !== null) return withServer(withoutServer(text), server)
  const addition = { key: NAME, value: server }
  if (servers !== null) return applyEdits(text, additionEdits(text, servers, [addition]))
  const value = { [NAME]: server }
  return applyEdits(text, additionEdits(text, root, [{ key: SERVERS, value }]))
}

/** Servers that were there before stay, even where there were none. */
function withoutServer(text: string): string {
  const { root, servers } = readServers(text)
  if (servers === null || member(servers, NAME) === null) return text
  const isAll = servers.items.every(({ key }) => key === NAME) && !wasEmpty(servers)
  const edits = isAll
    ? removalEdits(text, root, ({ key }) => key === SERVERS)
    : removalEdits(text, servers, ({ key }) => key === NAME)
  return applyEdits(text, edits)
}

function readServers(text: string): {
  readonly root: Container
  readonly servers: Container | null
} {
  const root = readJsonText(text)
  if (root.kind !== 'object') throw new JsonTextError('expected an object')
  const servers = member(root, SERVERS)?.node ?? null
  if (servers === null || servers.kind === 'object') return { root, servers }
  throw new JsonTextError(`${SERVERS} must be an object`)
}
