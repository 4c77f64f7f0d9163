// Runs one case of an Anthropic SDK and prints what came of it as one line of JSON.
//   node sdk.mjs PACKAGE CASE          (BASE_URL and API_KEY in the environment)
// PACKAGE is a dependency in package.json: @anthropic-ai/sdk (1.x) or anthropic-sdk-0 (0.x).

const [name, which] = process.argv.slice(2)
const { default: Anthropic, APIError } = await import(name)

const client = new Anthropic({
  baseURL: process.env.BASE_URL,
  apiKey: process.env.API_KEY,
  maxRetries: 0, // a retry of the SDK would hide what the proxy did
})
const model = 'claude-opus-5-5'
const ask = { model, max_tokens: 1000, messages: [{ role: 'user', content: 'say hi' }] }
const tools = [{
  name: 'weather',
  description: 'Tells the weather of a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}]

const text = (message) => message.content.filter((b) => b.type === 'text').map((b) => b.text).join('')

const cases = {
  async plain() {
    const { data, request_id } = await client.messages.create(ask).withResponse()
    return { text: text(data), stop_reason: data.stop_reason, usage: data.usage, request_id }
  },

  // The raw events first, then the SDK's own accumulation.
  async stream() {
    const events = []
    for await (const event of await client.messages.create({ ...ask, stream: true })) events.push(event.type)
    const message = await client.messages.stream(ask).finalMessage()
    return { events, text: text(message), stop_reason: message.stop_reason, usage: message.usage }
  },

  async tool() {
    const messages = [{ role: 'user', content: 'weather in Ulm and Köln?' }]
    const first = await client.messages.stream({ ...ask, tools, messages }).finalMessage()
    const calls = first.content.filter((b) => b.type === 'tool_use')
    messages.push({ role: 'assistant', content: first.content })
    messages.push({
      role: 'user',
      content: calls.map((c) => ({ type: 'tool_result', tool_use_id: c.id, content: `sun in ${c.input.city}` })),
    })
    const second = await client.messages.stream({ ...ask, tools, messages }).finalMessage()
    return { calls: calls.map((c) => ({ name: c.name, input: c.input })), stop_reason: first.stop_reason, text: text(second) }
  },

  // What the client had seen when the stream broke.
  async broken() {
    const seen = []
    try {
      for await (const event of await client.messages.create({ ...ask, stream: true })) {
        if (event.type === 'content_block_delta') seen.push(event.delta.text)
      }
    } catch (error) {
      return { seen: seen.join(''), error: describe(error) }
    }
    return { seen: seen.join('') }
  },

  // The SDK's own accumulation of a stream that may break.
  async accumulated() {
    return { text: text(await client.messages.stream(ask).finalMessage()) }
  },

  // The user stops after the first words.
  async abort() {
    const stream = client.messages.stream(ask)
    stream.on('text', () => stream.abort())
    return { text: text(await stream.finalMessage()) }
  },

  async count() {
    return await client.messages.countTokens({ model, messages: ask.messages, tools })
  },

  async models() {
    const ids = []
    for await (const info of client.models.list({ limit: 2 })) ids.push(info.id)
    return { ids, retrieved: (await client.models.retrieve(model)).id }
  },
}

function describe(error) {
  return {
    class: error.constructor.name,
    api: error instanceof APIError,
    status: error.status,
    type: error.error?.error?.type ?? error.type,
    message: error.message,
  }
}

let result
try {
  result = await cases[which]()
} catch (error) {
  result = { error: describe(error) }
}
console.log(JSON.stringify(result))
