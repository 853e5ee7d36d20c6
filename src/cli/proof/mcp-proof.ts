/** Whether a client of MCP would really get an answer: the configured server is asked for a file that another holder has. */
import path from 'node:path'
import { hasCode } from '../../runtime/file-system.ts'
import { runProgram } from '../../runtime/programs.ts'
import { attempt, type Check } from '../checkup.ts'
import { MCP_FILE, mcpCommand } from '../init/mcp-settings.ts'
import { edited, projectDirectory, readSettingsFile } from '../init/settings-file.ts'
import { TRIAL_LIMIT_MS, withHeldFile, type ProofFile } from './held-file.ts'

/** Nothing where the project's servers are not told of Tenure. */
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
