/** The file that tells clients of MCP which servers a project has, and Tenure's server in it. */
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { hasCode } from '../../runtime/file-system.ts'
import { runProgram } from '../../runtime/programs.ts'
import { attempt, type Check } from '../checkup.ts'
import { type ProofFile, TRIAL_LIMIT_MS, withHeldFile } from './held-file.ts'
import {
  additionEdits,
  applyEdits,
  type Container,
  JsonTextError,
  member,
  readJsonText,
  removalEdits,
  valueOf,
  wasEmpty,
} from './json-text.ts'
import { edited, projectDirectory, readSettingsFile, type SettingsPlan } from './settings-file.ts'

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

/** How a client starts Tenure's server; null where the settings have none that it starts. */
export function mcpCommand(text: string): readonly string[] | null {
  const servers = member(readJsonText(text), SERVERS)
  const found = servers === null ? null : member(servers.node, NAME)
  if (found === null) return null
  const server = valueOf(found.node) as Readonly<Record<string, unknown>> | null
  const { command, args, url } = server ?? {}
  if (typeof command === 'string') {
    return [command, ...(Array.isArray(args) ? (args as readonly unknown[]) : []).map(String)]
  }
  if (typeof url === 'string') return null
  throw new JsonTextError(`${SERVERS}.${NAME} must have a command or a url`)
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

/**
 * Whether a client of MCP would really get an answer: the configured server is asked for a file that another holder has.
 * Nothing where the project does not name Tenure's server.
 */
export async function proveMcp(cwd: string): Promise<readonly Check[]> {
  const file = path.join(await projectDirectory(cwd), MCP_FILE)
  const found = await attempt('mcp', async () => prove(file))
  return found.detail === '' ? [] : [found]
}

async function prove(file: string): Promise<string> {
  const text = readSettingsFile(file)
  const command = text === null ? null : edited(file, () => mcpCommand(text))
  if (command === null) return ''
  return withHeldFile(async (held) => {
    const said = await ask(command, held)
    if (said.includes('"granted":false') && said.includes(held.holder)) {
      return `a lease of what another holds is refused (${MCP_FILE})`
    }
    const [first = ''] = said.trim().split('\n')
    throw new Error(`the server does not tell who holds a file: ${first || 'it said nothing'}`)
  })
}

const ASKED = 'doctor'

/** Everything that it printed, until it had answered or ended. */
async function ask(command: readonly string[], held: ProofFile): Promise<string> {
  const clientInfo = { name: 'tenure-doctor', version: '1' }
  const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }
  const call = { name: 'lease_acquire', arguments: { resources: [held.file] } }
  const messages = [
    { id: 'hello', method: 'initialize', params: hello },
    { method: 'notifications/initialized' },
    { id: ASKED, method: 'tools/call', params: call },
  ]
  const input = messages.map((one) => `${JSON.stringify({ jsonrpc: '2.0', ...one })}\n`).join('')
  const until = new RegExp(`"id":"${ASKED}".*\\n`)
  const { directory: cwd, env } = held
  try {
    const ended = await runProgram(command, { cwd, env, input, until, limitMs: TRIAL_LIMIT_MS })
    const answer = ended.stdout
      .toString()
      .split('\n')
      .find((line) => until.test(`${line}\n`))
    return answer ?? ended.stderr
  } catch (error) {
    if (!hasCode(error, 'ENOENT', 'EACCES')) throw error
    throw new Error(`the server cannot be run: ${command[0]}`, { cause: error })
  }
}
